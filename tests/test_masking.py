"""What is hidden before anybody is shown an environment or a command."""

import re
import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_steps import growth_of_steps, num_steps
from tarmac import masking
from tarmac.masking import escapes, forms, masked_command, masked_environment, masked_text, programs


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


_CANARY = "CANARY7abcdEFGH1234"


@pytest.mark.parametrize(
    "text",
    [
        # Storage of Azure, Amazon and Google.
        "https://h/x?sig=CANARY7abcdEFGH1234%3D",
        "&sig=CANARY7abcdEFGH1234%3D",
        "AccountName=x;AccountKey=CANARY7abcdEFGH1234==;EndpointSuffix=y",
        "SharedAccessSignature=sv=1&CANARY7abcdEFGH1234",
        "http://h/x?X-Amz-Signature=CANARY7abcdEFGH1234",
        "X-Amz-Signature=CANARY7abcdEFGH1234&x",
        "X-Goog-Signature=CANARY7abcdEFGH1234",
        "AWS4-HMAC-SHA256 Credential=x, Signature=CANARY7abcdEFGH1234",
        # Headers.
        "Authorization: Token CANARY7abcdEFGH1234",
        "'Authorization': 'Basic CANARY7abcdEFGH1234'",
        '{"authorization": "CANARY7abcdEFGH1234"}',
        "Cookie: session=CANARY7abcdEFGH1234; b=1",
        "X-Api-Key: CANARY7abcdEFGH1234",
        # Names.
        "MYSQL_PWD=CANARY7abcdEFGH1234",
        "PGPASSWORD=CANARY7abcdEFGH1234 psql",
        "Server=x;Uid=sa;Pwd=CANARY7abcdEFGH1234;",
        "//registry/:_authToken=CANARY7abcdEFGH1234",
        "PRIVATE_KEY=CANARY7abcdEFGH1234",
        "machine h login me password CANARY7abcdEFGH1234",
        r'"{\"password\": \"CANARY7abcdEFGH1234\"}"',
        "<settings:password>CANARY7abcdEFGH1234</settings:password>",
        "<apiKey>CANARY7abcdEFGH1234</apiKey>",
        # Tokens.
        "glpat-CANARY7abcdEFGH1234x",
        "npm_CANARY7abcdEFGH1234CANARY7abcdEFGH1234",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.CANARY7abcdEFGH1234",
        "dckr_pat_CANARY7abcdEFGH1234x",
        "nvapi-CANARY7abcdEFGH1234CANARY7abcdEFGH1234",
        "sk-ant-api03-CANARY7abcdEFGH1234",
        "hvs.CANARY7abcdEFGH1234abcdef",
        "https://hooks.slack.com/services/T0/B0/CANARY7abcdEFGH1234",
        # URLs.
        "git clone https://CANARY7abcdEFGH1234@host/x",
        "redis://:CANARY7abcdEFGH1234@host",
        "https://host/cb#access_token=CANARY7abcdEFGH1234",
        # Programs.
        "curl -s -u user:CANARY7abcdEFGH1234 http://h",
        "sshpass -p CANARY7abcdEFGH1234 ssh h",
        "mysqldump -u root -pCANARY7abcdEFGH1234 db",
        "docker login -u me -p CANARY7abcdEFGH1234 host",
        "redis-cli -a CANARY7abcdEFGH1234",
        "python x.py --db-pass CANARY7abcdEFGH1234",
        "helm upgrade --set secret.key=CANARY7abcdEFGH1234 x",
        "env https_proxy=me:CANARY7abcdEFGH1234@proxy:3128 python x.py",
        # Keys, also where one end is cut off, or it is in one line.
        "a\n-----BEGIN RSA PRIVATE KEY-----\nCANARY7abcdEFGH1234\n-----END RSA PRIVATE KEY-----\n",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY7abcdEFGH1234\nCANARY7abcdEFGH1234",
        "CANARY7abcdEFGH1234\nCANARY7abcdEFGH1234\n-----END PRIVATE KEY-----\n",
        r'{"k": "-----BEGIN PRIVATE KEY-----\nCANARY7abcdEFGH1234\n-----END PRIVATE KEY-----\n"}',
    ],
)
def test_a_secret_is_known_by_what_scanners_know_it_by(text):
    shown = masked_text(text)
    assert _CANARY not in shown
    assert "(hidden)" in shown
    assert _CANARY not in " ".join(masked_command(["sh", "-c", text]))


@pytest.mark.parametrize(
    "line",
    [
        "/usr/bin/curl -u {} x",
        "curl -u {}: https://api.stripe.com",
        "curl -x me:{}@proxy:3128 x",
        "curl --proxy-user=me:{} x",
        "pip install --proxy me:{}@proxy:3128 x",
        "env https_proxy=me:{}@proxy:3128 python x.py",
        "sudo docker login -u me -p {} host",
        "skopeo copy --src-creds me:{} docker://a dir:b",
        "podman pull --creds=me:{} x",
        "crane auth login host -u me -p {}",
        "apptainer exec --env A=1,HF_TOKEN={} image x",
        "srun --export=ALL,WANDB_API_KEY={} x",
        "kubectl create secret generic x --from-literal=db={}",
        "aws configure set aws_secret_access_key {}",
        "npm config set //host/:_authToken {}",
        "mc alias set s3 https://h me {}",
        "twine upload -u __token__ -p {} dist/*",
        "openssl enc -pass pass:{} -in x",
        "unzip -P {} data.zip",
        "7z x -p{} data.7z",
        "smbclient -U me%{} //h/data",
        "ldapsearch -w {} -D cn=x",
        "mongodump -p {} --username me",
        "sshpass -p {} ssh h",
        "mysql -u root -p{} db",
        "docker login -p {} h",
        "redis-cli -a {}",
        "az login --service-principal -u me -p {}",
        "oc login -u me -p {} https://h",
        "vault login {}",
        "mariadb -u root -p{} db",
        "sqlcmd -S h -U sa -P {}",
        "cqlsh h -u me -p {}",
        "plink -ssh -pw {} me@h",
        "lftp -u me,{} sftp://h",
        "ipmitool -H h -U me -P {} power status",
        "racadm -r h -u root -p {} getsysinfo",
        "a https://h/x?sig={}",
    ],
)
def test_a_secret_among_arguments_is_hidden(line):
    line = line.format(_CANARY)
    for shown in (masked_text(line), " ".join(masked_command(line.split()))):
        assert _CANARY not in shown
        assert shown.split()[0] == line.split()[0]


def test_a_secret_of_several_words_is_hidden_whole_among_arguments():
    shown = masked_command(["unzip", "-P", "a 'b'\n\xa0c", "two words.zip", "", "d"])
    assert shown == ["unzip", "-P", "(hidden)", "two words.zip", "", "d"]


@pytest.mark.parametrize("value", ["a", "pw1", "pw12", "p-123"])
def test_a_named_password_is_hidden_however_short(value):
    for text in (f"PASSWORD={value} x", f'"password": "{value}"', f"db_password: {value}"):
        assert masked_text(text) == text.replace(f"{value} x", "(hidden) x").replace(
            f'"{value}"', '"(hidden)"'
        ).replace(f": {value}", ": (hidden)")


@pytest.mark.parametrize(
    "text",
    [
        "error: unexpected token: }",
        "secret for HF_TOKEN: no source is known for s/k",
        "secret for HF_TOKEN: the variable X is not set",
        "password=None, token=null",
        "Authorization: denied for user x",
        "git clone ssh://git@host/x",
        "docker run -u 1000:1000 image; curl http://h/x",
        "docker run -p 27017:27017 mongo:7@sha256:3f2a9c0d",
        "ssh login -p 2222; curl -sU x; pip install --proxy proxy:3128 x",
        "docker run --user root image curl x; docker run -p 8888 mongo",
        "srun -p debug twine check; gzip -P x; openssl req -x509 -keyout k.pem",
        "ssh login-1 -p 22",
        "git config set credential.helper store; aws configure set region eu; mc cp a b",
        "killed by sig=9; PASS=3 FAIL=0",
        "http://h/page?2 and s3://bucket/key#1",
        "f(signature=(a, b)), sort_key=name, monkey=x",
        "model sk-small, gl-20, npm_config, 3f2a9c0d3f2a9c0d3f2a9c0d3f2a9c0d3f2a9c0d",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "PASSED [ 50%] test_token_is_kept",
        "vault login -method=oidc, az account show -p x; <key>name</key>",
    ],
)
def test_what_only_looks_like_a_secret_is_shown(text):
    assert masked_text(text) == text


@pytest.mark.parametrize("name", ["curl", "/usr/bin/curl"])
def test_a_login_is_hidden_on_the_command_line_of_its_program(name):
    assert masked_command([name, "-u", "me:pw", "http://h"]) == [
        name,
        "-u",
        "me:(hidden)",
        "http://h",
    ]
    assert masked_command(["docker", "run", "-u", "me:pw"]) == ["docker", "run", "-u", "me:pw"]


# "~" is a space, "^" the end of a line.
_WORDS = """
    y token token= ://a: hf_ bearer ://a@ ://? ? eyJ- eyJ. eyJ.eyJ. sk- _pwd secret- secret" apikey-
    SG.aaaaaaaaaaaaaaaaaaaaaa -----BEGIN~PRIVATE~KEY----- -----END~PRIVATE~KEY-----^ password:
    Private-Lines:~ curl~-u~ curl docker~login~ sshpass~-p~ login~ login~a~password~ authorization
    @proxy= mc~alias~set~a~ config~set config~set~_token- kubectl~--from-literal=a openssl~-k 7z~-p
    authorization:~ sig= signature= aaaaaaaaaaaaaa.atlasv1. AAAAAAAAAAAAAAAAAAAAAA^ 12345678:AA
    cookie: hooks.slack.com/services/ 0123456789abcdef0123456789abcdef --token~ secret\\
    <password> <password <secret></ vault~login lftp~-u~a
"""
_WORDS = sorted({word.replace("~", " ").replace("^", "\n") for word in _WORDS.split()})


def patterns_in(value):
    """Yield the patterns of a module's value, in tuples and mappings too."""
    if isinstance(value, re.Pattern):
        yield value.pattern
    elif isinstance(value, dict):
        yield from patterns_in(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from patterns_in(inner)


# But those that are looked for at one place alone, and those of one letter.
_PATTERNS = {
    pattern
    for module in (masking, forms, programs, escapes)
    for value in vars(module).values()
    for pattern in patterns_in(value)
} - {forms._NUMBER.pattern, programs._NUMBERS.pattern, programs._ENDS.pattern}
_PATTERNS -= {programs._PRIVATE.pattern}


def lines_of_python(function, text):
    """Return how many lines of Python a call takes."""
    lines = 0

    def count(_frame, event, _argument):
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        function(text)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("word", _WORDS)
def test_long_texts_of_strangers_take_no_longer_than_their_length_needs(word):
    def text_of(length):
        return word * (length // len(word))

    # One that looks at each letter again for each letter is among those of the most steps.
    most = sorted(_PATTERNS, key=lambda pattern: num_steps(pattern, text_of(300)))[-4:]
    growth = {pattern: growth_of_steps(pattern, 300, text_of) for pattern in most}
    assert {pattern: times for pattern, times in growth.items() if times > 2.7} == {}
    short, long = (lines_of_python(masked_text, text_of(length)) for length in (3000, 6000))
    assert long < 2.7 * short


def test_each_pattern_takes_a_time_that_grows_with_a_texts_length_and_no_faster():
    growth = {pattern: growth_of_steps(pattern, 300) for pattern in _PATTERNS}
    assert {pattern: times for pattern, times in growth.items() if times > 2.7} == {}


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
