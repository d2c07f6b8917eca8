"""Forward, head, backward and update kernels of a stack of multilayer perceptrons.

Axis 0 of a launch is the tile, axis 1 the network. ``N`` and ``K`` are stored widths: multiples of
16, so that rows are aligned. Elements beyond the true widths are zero and stay zero. Values are
``[networks, rows, features]``, weights ``[networks, out, in]``.

Networks of a RAGGED stack have widths and depths of their own. PLACES then holds their widths, and
where their values begin: int64 ``[networks, layers, 16]``, see `tarmac.kernels.places`. Programs
beyond a network's own tiles return at once.

``CURSOR`` is int32 ``[3]``: the number of the step in the tables, the number of samples in
``ORDER``, and the number of steps before the tables begin. The cursor is on the device, so that
recorded launches continue from its current value. ``offset`` is a launch's step in a recording.

Dropout is Philox of a network's seed, the element, the step and the layer (Salmon et al., SC'11).
The backward pass draws the same numbers again, so no mask is stored.
"""

import triton
import triton.language as tl

_LEVELS = tl.constexpr(65536)

# Fields of PLACES, after N, K and the true N and K.
_FIELDS = tl.constexpr(16)
_BELOW, _WEIGHTS, _BIASES, _OUTPUTS, _INPUTS = (tl.constexpr(index) for index in range(4, 9))
_AVERAGES, _MOMENTS, _BIAS_AVERAGES, _BIAS_MOMENTS = (tl.constexpr(i) for i in range(9, 13))


@triton.jit
def _widths(place):
    """Return N, K and the true N of a network's layer in a ragged stack."""
    stored_n = tl.multiple_of(tl.load(place).to(tl.int32), 16)
    stored_k = tl.multiple_of(tl.load(place + 1).to(tl.int32), 16)
    return stored_n, stored_k, tl.load(place + 2).to(tl.int32)


@triton.jit
def _start(place, field):
    """Return where a network's values begin; a multiple of 16, so that loads are aligned."""
    return tl.multiple_of(tl.load(place + field), 16)


@triton.jit
def _samples(ORDER, CURSOR, net, rows, batch_size, order_stride, offset):
    """Return the sample index of each row of this step, and whether the row has a sample."""
    position = tl.load(CURSOR) + offset
    at = position * batch_size + rows
    there = (rows < batch_size) & (at < tl.load(CURSOR + 1))
    index = tl.load(ORDER + net.to(tl.int64) * order_stride + at, mask=there, other=0)
    return index.to(tl.int64), there


@triton.jit
def _kept(SEED, CURSOR, net, elements, layer, offset, threshold):
    step = tl.load(CURSOR + 2) + tl.load(CURSOR) + offset
    zero = elements * 0
    draw, _, _, _ = tl.philox(tl.load(SEED + net), elements, zero + step, zero + layer, zero)
    return (draw & 0xFFFF).to(tl.int32) >= threshold


@triton.jit
def _activated(x, code):
    if code == 0:
        y = tl.maximum(x, 0.0)
    elif code == 1:
        y = tl.where(x > 0, x, tl.exp(tl.minimum(x, 0.0)) - 1)
    elif code == 2:
        y = 2 / (1 + tl.exp(-2 * x)) - 1
    else:
        y = 1 / (1 + tl.exp(-x))
    return y


@triton.jit
def _slope(y, code):
    """Return the activation's derivative, computed from its output."""
    if code == 0:
        slope = (y > 0).to(tl.float32)
    elif code == 1:
        slope = tl.where(y > 0, 1.0, y + 1)
    elif code == 2:
        slope = 1 - y * y
    else:
        slope = y * (1 - y)
    return slope


@triton.jit
def _product(
    X, weights, at, cols, N, K, factor, shift,
    FIRST: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Return a tile of X[at] @ weights.T; FIRST converts and scales the bytes of X."""
    inner = tl.arange(0, DEPTH)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, K, DEPTH):
        inside = inner + k < K
        x = tl.load(X + at[:, None] * K + (inner + k)[None, :], mask=inside[None, :], other=0)
        if FIRST:
            # Weights beyond the true width are zero, so the shifted padding adds nothing.
            x = (x.to(tl.float32) * factor + shift).to(weights.dtype.element_ty)
        w = tl.load(
            weights + cols[:, None] * K + (inner + k)[None, :],
            mask=(cols < N)[:, None] & inside[None, :],
            other=0.0,
        )
        total = tl.dot(x, tl.trans(w), total, input_precision=PRECISION)
    return total


@triton.jit(
    do_not_specialize=[
        "n", "batch_size", "order_stride", "layer", "num_hidden", "offset", "training",
    ]
)  # fmt: skip
def forward(
    X, ORDER, CURSOR, C, B, H, PLACES, ACTIVATION, THRESHOLD, SCALE, SEED, factor, shift,
    N, K, n, rows_stored, batch_size, order_stride, layer, num_hidden, offset, training,
    FIRST: tl.constexpr, RAGGED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Set H[net] = dropout(activation(X[net] @ C[net].T + B[net])); FIRST gathers X by ORDER."""
    net = tl.program_id(1)
    if RAGGED:
        place = PLACES + (net * (num_hidden + 1) + layer) * _FIELDS
        N, K, n = _widths(place)
        at_c, at_b = _start(place, _WEIGHTS), _start(place, _BIASES)
        at_h, at_x = _start(place, _OUTPUTS), _start(place, _INPUTS)
        if tl.program_id(0) >= tl.cdiv(rows_stored, ROWS) * tl.cdiv(N, COLUMNS):
            return
    else:
        at_c, at_b = net.to(tl.int64) * N * K, net * N
        at_h, at_x = net.to(tl.int64) * rows_stored * N, net.to(tl.int64) * rows_stored * K
    tiles = tl.cdiv(N, COLUMNS)
    rows = tl.program_id(0) // tiles * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)
    if FIRST:
        at, _ = _samples(ORDER, CURSOR, net, rows, batch_size, order_stride, offset)
    else:
        at = rows.to(tl.int64)
        X += at_x
    x = _product(X, C + at_c, at, cols, N, K, factor, shift, FIRST, ROWS, COLUMNS, DEPTH, PRECISION)
    x += tl.load(B + at_b + cols, mask=cols < N, other=0.0)[None, :]
    here = net * num_hidden + layer
    y = _activated(x, tl.load(ACTIVATION + here))
    elements = rows[:, None] * N + cols[None, :]
    threshold = tl.load(THRESHOLD + here) * training
    if threshold > 0:
        kept = _kept(SEED, CURSOR, net, elements, layer, offset, threshold)
        y = tl.where(kept, y * tl.load(SCALE + here), 0.0)
    y = tl.where((cols < n)[None, :], y, 0.0)
    tl.store(H + at_h + elements, y.to(H.dtype.element_ty), mask=(cols < N)[None, :])


@triton.jit(do_not_specialize=["n", "batch_size", "order_stride", "num_hidden", "offset"])
def head(
    X, ORDER, CURSOR, TARGETS, C, B, E, PLACES, TOTALS, factor, shift, smoothing,
    N, K, n, rows_stored, batch_size, order_stride, num_hidden, offset,
    FIRST: tl.constexpr, RAGGED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Set E[net] to the gradient of the mean loss by the logits, and add to TOTALS.

    TOTALS is fp64 ``[networks, programs, 2]``: losses and correct predictions. Each program adds to
    its own entry, so that the sums are bitwise reproducible.
    """
    net = tl.program_id(1)
    if RAGGED:
        place = PLACES + (net * (num_hidden + 1) + num_hidden) * _FIELDS
        N, K, n = _widths(place)
        at_c, at_b = _start(place, _WEIGHTS), _start(place, _BIASES)
        at_e, at_x = _start(place, _OUTPUTS), _start(place, _INPUTS)
    else:
        at_c, at_b = net.to(tl.int64) * N * K, net * N
        at_e, at_x = net.to(tl.int64) * rows_stored * N, net.to(tl.int64) * rows_stored * K
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, COLUMNS)
    index, there = _samples(ORDER, CURSOR, net, rows, batch_size, order_stride, offset)
    if FIRST:
        at = index
    else:
        at = rows.to(tl.int64)
        X += at_x
    x = _product(X, C + at_c, at, cols, N, K, factor, shift, FIRST, ROWS, COLUMNS, DEPTH, PRECISION)
    is_class = (cols < n)[None, :]
    x += tl.load(B + at_b + cols, mask=cols < N, other=0.0)[None, :]
    x = tl.where(is_class, x, -float("inf"))
    most = tl.max(x, 1)
    p = tl.exp(x - most[:, None])
    total = tl.sum(p, 1)
    target = tl.load(TARGETS + index, mask=there, other=0).to(tl.int32)
    own = target[:, None] == cols[None, :]
    log_total = most + tl.log(total)
    even = smoothing / n
    loss = log_total - (1 - smoothing) * tl.sum(tl.where(own, x, 0.0), 1)
    loss -= even * tl.sum(tl.where(is_class, x, 0.0), 1)
    right = (tl.argmax(x, 1) == target) & there
    mine = TOTALS + 2 * (net * tl.num_programs(0) + tl.program_id(0))
    losses = tl.sum(tl.where(there, loss, 0.0), 0).to(tl.float64)
    tl.store(mine, tl.load(mine) + losses)
    tl.store(mine + 1, tl.load(mine + 1) + tl.sum(right.to(tl.float32), 0).to(tl.float64))
    left = tl.load(CURSOR + 1) - (tl.load(CURSOR) + offset) * batch_size
    count = tl.minimum(batch_size, left).to(tl.float32)
    e = (p / total[:, None] - tl.where(own, 1 - smoothing, 0.0) - even) / count
    e = tl.where(is_class & there[:, None], e, 0.0)
    elements = rows[:, None] * N + cols[None, :]
    tl.store(E + at_e + elements, e.to(E.dtype.element_ty), mask=(cols < N)[None, :])


@triton.jit(do_not_specialize=["layer", "num_hidden", "offset"])
def backward(
    E, CURSOR, C, H, G, PLACES, ACTIVATION, THRESHOLD, SCALE, SEED,
    N, K, rows_stored, layer, num_hidden, offset, RAGGED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Set G[net] = (E[net] @ C[net]) * activation'(H[net]), with the forward pass's dropout.

    E is the error of a layer's outputs; G and H are of the layer below.
    """
    net = tl.program_id(1)
    if RAGGED:
        place = PLACES + (net * (num_hidden + 1) + layer) * _FIELDS
        N, K, _ = _widths(place)
        below = tl.load(place + _BELOW).to(tl.int32)
        at_c, at_e, at_h = _start(place, _WEIGHTS), _start(place, _OUTPUTS), _start(place, _INPUTS)
        if tl.program_id(0) >= tl.cdiv(rows_stored, ROWS) * tl.cdiv(K, COLUMNS):
            return
    else:
        below = layer - 1
        at_c = net.to(tl.int64) * N * K
        at_e, at_h = net.to(tl.int64) * rows_stored * N, net.to(tl.int64) * rows_stored * K
    tiles = tl.cdiv(K, COLUMNS)
    rows = tl.program_id(0) // tiles * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, DEPTH)
    weights, errors = C + at_c, E + at_e
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, N, DEPTH):
        inside = inner + k < N
        e = tl.load(
            errors + rows[:, None] * N + (inner + k)[None, :], mask=inside[None, :], other=0.0
        )
        w = tl.load(
            weights + (inner + k)[:, None] * K + cols[None, :],
            mask=inside[:, None] & (cols < K)[None, :],
            other=0.0,
        )
        total = tl.dot(e, w, total, input_precision=PRECISION)
    elements = rows[:, None] * K + cols[None, :]
    exists = (cols < K)[None, :]
    h = tl.load(H + at_h + elements, mask=exists, other=0.0).to(tl.float32)
    here = net * num_hidden + below
    threshold = tl.load(THRESHOLD + here)
    code = tl.load(ACTIVATION + here)
    if threshold > 0:
        scale = tl.load(SCALE + here)
        kept = _kept(SEED, CURSOR, net, elements, below, offset, threshold)
        # With a dropout of 1 the scale is 0 and nothing is kept; avoid a division by 0.
        total = tl.where(kept, total * scale * _slope(h / tl.maximum(scale, 1.0), code), 0.0)
    else:
        total *= _slope(h, code)
    tl.store(G + at_h + elements, total.to(G.dtype.element_ty), mask=exists)


@triton.jit
def _updated(
    w, g, u, v, form, a, to_average, b, to_moment, eps, of_gradient, of_average, root
):  # fmt: skip
    """Return a weight, its average and its second moment after a step; see `rules`."""
    if form == 0:
        u = a * u + to_average * g
        w -= of_gradient * g + of_average * u
    elif form == 1:
        u = a * u + to_average * g
        v = b * v + to_moment * g * g
        w -= (of_gradient * g + of_average * u) / (tl.sqrt(v) * root + eps)
    elif form == 2:
        u = a * u + to_average * g
        v = tl.maximum(b * v, tl.abs(g) + eps)
        w -= of_average * u / v
    else:
        v = b * v + to_moment * (g * g + eps)
        delta = tl.sqrt(u / v) * g
        u = a * u + to_average * (delta * delta + eps)
        w -= of_gradient * delta
    return w, u, v


@triton.jit(
    do_not_specialize=[
        "n", "k_true", "batch_size", "order_stride", "layer", "num_layers", "num_factors", "offset",
    ]
)  # fmt: skip
def update(
    G, X, ORDER, CURSOR, W, C, U, V, B, UB, VB, PLACES,
    FORM, SLOT, RULE, FACTORS, DECAY, factor, shift,
    N, K, n, k_true, rows_stored, batch_size, order_stride, layer, num_layers, num_factors, offset,
    FIRST: tl.constexpr, COPY: tl.constexpr, RAGGED: tl.constexpr,
    OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Update W[net], its copy C and the biases by the network's optimizer.

    The gradient of W[net] is G[net].T @ X[net]. SLOT is int32 ``[networks, 2]``: the network's
    index in U and in V, or -1 for none.
    """
    net = tl.program_id(1)
    u_slot, v_slot = tl.load(SLOT + 2 * net).to(tl.int64), tl.load(SLOT + 2 * net + 1).to(tl.int64)
    if RAGGED:
        place = PLACES + (net * num_layers + layer) * _FIELDS
        N, K, n = _widths(place)
        k_true = tl.load(place + 3).to(tl.int32)
        at_g, at_x = _start(place, _OUTPUTS), _start(place, _INPUTS)
        at_w, at_u, at_v = (
            _start(place, _WEIGHTS),
            _start(place, _AVERAGES),
            _start(place, _MOMENTS),
        )
        at_b, at_ub = _start(place, _BIASES), _start(place, _BIAS_AVERAGES)
        at_vb = _start(place, _BIAS_MOMENTS)
        if tl.program_id(0) >= tl.cdiv(N, OUTPUTS) * tl.cdiv(K, INPUTS):
            return
    else:
        at_g, at_x = net.to(tl.int64) * rows_stored * N, net.to(tl.int64) * rows_stored * K
        at_w, at_u, at_v = net.to(tl.int64) * N * K, u_slot * N * K, v_slot * N * K
        at_b, at_ub, at_vb = net * N, u_slot * N, v_slot * N
    tiles = tl.cdiv(K, INPUTS)
    outs = tl.program_id(0) // tiles * OUTPUTS + tl.arange(0, OUTPUTS)
    ins = tl.program_id(0) % tiles * INPUTS + tl.arange(0, INPUTS)
    if not FIRST:
        X += at_x
    gradient = tl.zeros((OUTPUTS, INPUTS), tl.float32)
    bias_gradient = tl.zeros((OUTPUTS,), tl.float32)
    for first in range(0, rows_stored, ROWS):
        rows = first + tl.arange(0, ROWS)
        g = tl.load(
            G + at_g + rows[:, None] * N + outs[None, :], mask=(outs < N)[None, :], other=0.0
        )
        if FIRST:
            at, _ = _samples(ORDER, CURSOR, net, rows, batch_size, order_stride, offset)
        else:
            at = rows.to(tl.int64)
        x = tl.load(X + at[:, None] * K + ins[None, :], mask=(ins < K)[None, :], other=0)
        if FIRST:
            x = (x.to(tl.float32) * factor + shift).to(g.dtype)
        gradient = tl.dot(tl.trans(g), x, gradient, input_precision=PRECISION)
        bias_gradient += tl.sum(g.to(tl.float32), 0)
    form = tl.load(FORM + net)
    a, to_average = tl.load(RULE + 5 * net), tl.load(RULE + 5 * net + 1)
    b, to_moment = tl.load(RULE + 5 * net + 2), tl.load(RULE + 5 * net + 3)
    eps = tl.load(RULE + 5 * net + 4)
    row = (net.to(tl.int64) * num_factors + tl.load(CURSOR) + offset) * 3
    of_gradient, of_average = tl.load(FACTORS + row), tl.load(FACTORS + row + 1)
    root = tl.load(FACTORS + row + 2)
    decays = DECAY + 2 * (net * num_layers + layer)

    inside = outs[:, None] * K + ins[None, :]
    mask = (outs < N)[:, None] & (ins < K)[None, :]
    true = (outs < n)[:, None] & (ins < k_true)[None, :]
    w = tl.load(W + at_w + inside, mask=mask, other=0.0)
    u = tl.load(U + at_u + inside, mask=mask & (u_slot >= 0), other=0.0)
    v = tl.load(V + at_v + inside, mask=mask & (v_slot >= 0), other=0.0)
    gradient += tl.load(decays) * w
    w, u, v = _updated(
        w, gradient, u, v, form, a, to_average, b, to_moment, eps, of_gradient, of_average, root
    )
    w = tl.where(true, w, 0.0)
    tl.store(W + at_w + inside, w, mask=mask)
    tl.store(U + at_u + inside, u, mask=mask & (u_slot >= 0))
    tl.store(V + at_v + inside, v, mask=mask & (v_slot >= 0))
    if COPY:
        tl.store(C + at_w + inside, w.to(C.dtype.element_ty), mask=mask)

    if tl.program_id(0) % tiles == 0:
        exists = outs < n
        bias = tl.load(B + at_b + outs, mask=exists, other=0.0)
        bias_u = tl.load(UB + at_ub + outs, mask=exists & (u_slot >= 0), other=0.0)
        bias_v = tl.load(VB + at_vb + outs, mask=exists & (v_slot >= 0), other=0.0)
        bias_gradient += tl.load(decays + 1) * bias
        bias, bias_u, bias_v = _updated(
            bias, bias_gradient, bias_u, bias_v,
            form, a, to_average, b, to_moment, eps, of_gradient, of_average, root,
        )  # fmt: skip
        tl.store(B + at_b + outs, bias, mask=exists)
        tl.store(UB + at_ub + outs, bias_u, mask=exists & (u_slot >= 0))
        tl.store(VB + at_vb + outs, bias_v, mask=exists & (v_slot >= 0))


@triton.jit(do_not_specialize=["steps"])
def advance(CURSOR, steps):
    """Move the cursor forward by ``steps``."""
    tl.store(CURSOR, tl.load(CURSOR) + steps)
