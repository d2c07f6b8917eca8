"""What is hidden before anybody is shown an environment or a command."""

import pytest

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
