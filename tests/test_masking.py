"""What is hidden before anybody is shown an environment or a command."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.masking import masked_command, masked_environment, masked_text


@pytest.mark.parametrize(
    "name",
    ["WANDB_API_KEY", "HF_TOKEN", "aws_secret_access_key", "DB_PASSWORD", "MYSQL_PWD", "X_AUTH"],
)
def test_a_variable_whose_name_speaks_of_a_secret_is_hidden(name):
    assert masked_environment({name: "abc"}) == {name: "(hidden)"}


@pytest.mark.parametrize("name", ["PATH", "PWD", "OLDPWD", "TOKENIZERS_PARALLELISM", "CUDA_HOME"])
def test_a_harmless_variable_stays(name):
    assert masked_environment({name: "/home"}) == {name: "/home"}


def test_an_empty_secret_is_told_to_be_empty():
    assert masked_environment({"HF_TOKEN": ""}) == {"HF_TOKEN": ""}


def test_a_secret_in_an_address_is_hidden_whatever_its_variable():
    assert masked_environment({"DATABASE": "postgresql://ann:pw12@db/x"}) == {
        "DATABASE": "postgresql://(hidden)@db/x"
    }


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        (["a", "--api-key", "v", "--n", "1"], ["a", "--api-key", "(hidden)", "--n", "1"]),
        (["a", "--password=v"], ["a", "--password=(hidden)"]),
        (["env", "HF_TOKEN=v", "a"], ["env", "HF_TOKEN=(hidden)", "a"]),
        (["a", "--token", "--next"], ["a", "--token", "--next"]),
        (["a", "--token"], ["a", "--token"]),
        (["sh", "-c", "TOKEN=abcdefgh python x"], ["sh", "-c", "TOKEN=(hidden)"]),
        (["curl", "-H", "Authorization: Bearer abcdefgh123"], None),
    ],
)
def test_secrets_on_a_command_line_are_hidden(command, masked):
    shown = masked_command(command)
    assert shown == masked or (masked is None and "abcdefgh123" not in " ".join(shown))


def test_a_token_is_known_by_its_form():
    assert masked_text("login with hf_abcdefghijklmnopqrstuvwxyz now") == "login with (hidden) now"


@pytest.mark.parametrize("word", ["y", "token", "token=", "token ", "://a:", "hf_", "bearer "])
def test_long_texts_of_strangers_take_no_longer_than_their_length_needs(word):
    # With a pattern that looks at each letter again for each letter these are hours.
    text = word * 100_000
    assert len(masked_text(text)) <= len(text) + len("(hidden)")


@pytest.mark.parametrize(
    "command",
    [
        ["a", "--tokenizer", "gpt2"],
        ["a", "--tokenizer-path=/data/gpt2-medium"],
        ["a", "--max-tokens", "1000000"],
        ["a", "--max_new_tokens=2048"],
        ["sh", "-c", "a --max-tokens 1000000 --tokeniser gpt2-medium && num_tokens=10000000 b"],
        ["a", "--set", "num_tokens=1e9"],
    ],
)
def test_what_is_said_of_tokens_of_a_text_is_shown(command):
    assert masked_command(command) == command


@pytest.mark.parametrize(
    "command",
    [
        "curl --token abc123 x",
        "a --hf-token 'abc123' && b",
        'a --api-key "abc123"',
        "a --tokens abc123",
        "a --TOKEN=abc123",
        "a;  --password\tabc123|b",
        "TOKENIZER_SECRET=abc123 b",
    ],
)
def test_a_secret_in_a_line_for_a_shell_is_hidden(command):
    (*_, shown) = masked_command(["sh", "-c", command])
    assert "abc123" not in shown
    assert "abc123" not in masked_text(command)


_NAMES = st.sampled_from(["token", "hf-token", "api-key", "secret", "db-password", "tokens"])
# Of letters, so that it is no number, and none of the words around it.
_SECRETS = st.text("ghjqxz", min_size=6, max_size=40)


@given(_NAMES, _SECRETS, st.sampled_from(["--{}={}", "--{} {}", "--{} '{}'", '--{} "{}"']))
def test_a_named_secret_is_hidden_however_it_is_given(name, secret, form):
    line = f"env X=1 prog --epochs 3 {form.format(name, secret)} --out dir"
    for shown in (masked_text(line), *masked_command(["sh", "-c", line])):
        assert secret not in shown
    shown = masked_text(line)
    assert shown.startswith("env X=1 prog --epochs 3 ")
    assert shown.endswith("--out dir")


def test_what_is_hidden_already_stays_as_it_is():
    line = shlex.join(masked_command(["sh", "-c", "echo two; exit 0", "--token", "abc123"]))
    assert line == "sh -c 'echo two; exit 0' --token '(hidden)'"
    assert masked_text(line) == line
