"""The published genetic search, one network at a time in Keras 3 on TensorFlow.

    python keras_evolve.py SEED GENERATIONS POPULATION TRAIN_SIZE EPOCHS

After harvitronix/neural-network-genetic-algorithm at 66ce11a (2017-11-16), written anew: retain
0.4, random select 0.1, mutate 0.2; early stopping with patience 5 and fitness both on the test set;
a network is trained when its accuracy is not known, and children are mutated. The optimizers have
the values of that day's Keras, 2.0. Prints one JSON line.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import tensorflow as tf
from _mnist import load

SPACE = {
    "neurons": (64, 128, 256, 512, 768, 1024),
    "layers": (1, 2, 3, 4),
    "activation": ("relu", "elu", "tanh", "sigmoid"),
    "optimizer": ("rmsprop", "adam", "sgd", "adagrad", "adadelta", "adamax", "nadam"),
}
OPTIMIZERS = {
    "rmsprop": lambda: keras.optimizers.RMSprop(1e-3, rho=0.9, epsilon=1e-8),
    "adam": lambda: keras.optimizers.Adam(1e-3, epsilon=1e-8),
    "sgd": lambda: keras.optimizers.SGD(1e-2),
    "adagrad": lambda: keras.optimizers.Adagrad(1e-2, initial_accumulator_value=0.0, epsilon=1e-8),
    "adadelta": lambda: keras.optimizers.Adadelta(1.0, rho=0.95, epsilon=1e-8),
    "adamax": lambda: keras.optimizers.Adamax(2e-3, epsilon=1e-8),
    "nadam": lambda: keras.optimizers.Nadam(2e-3, epsilon=1e-8),
}
RETAIN, RANDOM_SELECT, MUTATE = 0.4, 0.1, 0.2

seed, generations, size, train_size, epochs = map(int, sys.argv[1:])
rng = random.Random(seed)
keras.utils.set_random_seed(seed)
(x_train, y_train), (x_test, y_test) = load()
x_train = x_train[:train_size].reshape(-1, 784).astype("float32") / 255
x_test = x_test.reshape(-1, 784).astype("float32") / 255
y_train = keras.utils.to_categorical(y_train[:train_size], 10)
y_test = keras.utils.to_categorical(y_test, 10)
trainings = []


def train(genes: dict[str, object]) -> float:
    started = time.perf_counter()
    keras.backend.clear_session()
    model = keras.Sequential([keras.layers.Input((784,))])
    for _ in range(genes["layers"]):
        model.add(keras.layers.Dense(genes["neurons"], activation=genes["activation"]))
        model.add(keras.layers.Dropout(0.2))
    model.add(keras.layers.Dense(10, activation="softmax"))
    model.compile(
        loss="categorical_crossentropy",
        optimizer=OPTIMIZERS[genes["optimizer"]](),
        metrics=["accuracy"],
    )
    history = model.fit(
        x_train,
        y_train,
        batch_size=128,
        epochs=epochs,
        verbose=0,
        validation_data=(x_test, y_test),
        callbacks=[keras.callbacks.EarlyStopping(patience=5)],
    )
    _, accuracy = model.evaluate(x_test, y_test, verbose=0)
    done = len(history.epoch)
    trainings.append(
        {"epochs": done, "accuracy": accuracy, "seconds": time.perf_counter() - started, **genes}
    )
    return float(accuracy)


def breed(mother: dict[str, object], father: dict[str, object]) -> dict[str, object]:
    child = {gene: rng.choice((mother[gene], father[gene])) for gene in SPACE}
    if rng.random() < MUTATE:
        gene = rng.choice([*SPACE])
        child[gene] = rng.choice(SPACE[gene])
    return child


# A network and its accuracy, None until it is trained.
population = [
    [{gene: rng.choice(values) for gene, values in SPACE.items()}, None] for _ in range(size)
]
started = time.perf_counter()
for generation in range(generations):
    for network in population:
        if network[1] is None:
            network[1] = train(network[0])
    if generation + 1 == generations:
        break
    ranked = sorted(population, key=lambda network: -network[1])
    retained = int(len(ranked) * RETAIN)
    kept = ranked[:retained] + [n for n in ranked[retained:] if rng.random() < RANDOM_SELECT]
    children = []
    while len(kept) + len(children) < size:
        mother, father = rng.sample(kept, 2)
        children += [[breed(mother[0], father[0]), None] for _ in range(2)]
    population = kept + children[: size - len(kept)]
best = max(population, key=lambda network: network[1])
print(
    json.dumps(
        {
            "search_s": time.perf_counter() - started,
            "test_accuracy": best[1],
            "best": best[0],
            "trainings": trainings,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "versions": {"keras": keras.__version__, "tensorflow": tf.__version__},
        }
    )
)
