"""Masking of secrets by their form: names of secrets, headers, URLs, tokens.

The forms of tokens and the names of secrets are from two maintained scanners: gitleaks (MIT,
https://github.com/gitleaks/gitleaks, ``config/gitleaks.toml`` at b58d3f1) and detect-secrets
(Apache-2.0, https://github.com/Yelp/detect-secrets, ``detect_secrets/plugins`` at 5e14193). The
patterns are new: a scanner may take minutes for a file and must avoid false positives. A page must
be fast, and masks too much rather than too little.

The time of each pattern is linear in the text's length: repetitions are bounded, or their text is
never matched again.

Example:
    >>> hide_forms("curl --token abc https://host/x?sig=abc")
    'curl --token (hidden) https://host/x?(hidden)'
"""

from __future__ import annotations

import re

# Placeholder for a secret.
HIDDEN = "(hidden)"

# A number of tokens, as in --max-tokens, is no secret.
_TOKENS = re.compile(r"(?i)tokens(?![a-z])")
_NUMBER = re.compile(r"[+-]?[0-9][0-9_,]*(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?[kMGBT]?")

# No repetition comes before the word, so that each letter is matched once.
_CERTAIN = r"secret|passw(?:or)?d|passphrase|credential"
_KEYS = (
    r"(?:api|access|account|private|encryption|signing|storage|shared|ssh|master|auth|client)"
    r"[_-]?key"
)
_SPEAKING = rf"(?:{_CERTAIN}|{_KEYS}|token(?!i[sz]))[\w.-]{{0,100}}"
_WORD = r"(?!(?:none|null|true|false)\b)(?:[^\s\"',;&\\]|\\(?!n)){1,8192}"
# Error messages on a secret continue with these words after its name.
_NO_PROSE = r"(?!(?:an?|the|it|is|no|not|nothing|expected|invalid|missing|must|should)\s)"
# WANDB_API_KEY=..., AccountKey=..., "password": "...", \"token\": \"...\"; MYSQL_PWD=...
_ASSIGNED = (
    re.compile(
        rf"(?i)((?:{_SPEAKING}|[_;-](?:pass|pwd|auth))\\?[\"']?\s{{0,8}}=\s{{0,8}}\\?[\"']?)({_WORD})"
    ),
    re.compile(
        rf"(?i)((?:{_CERTAIN}|{_KEYS})[\w-]{{0,100}}\\?[\"']?\s{{0,8}}:\s{{0,8}}\\?[\"']?)"
        rf"{_NO_PROSE}({_WORD})"
    ),
    re.compile(r"(?i)(sharedaccesssignature=)([^\s\"';]{1,8192})"),
    # "unexpected token: x" is no secret.
    re.compile(
        r"(?i)(token(?!i[sz])[\w-]{0,100}\\?[\"']?\s{0,8}:\s{0,8}\\?[\"']?)"
        rf"{_NO_PROSE}([^\s\"',;&\\]{{6,}})"
    ),
    # <password>...</password>
    re.compile(
        rf"(?i)(<(?:[\w.-]{{1,40}}:)?(?:{_CERTAIN}|{_KEYS}|token(?!i[sz]))[\w.-]{{0,100}}>)"
        r"([^<>]{1,8192})(?=</)"
    ),
    # Signatures of requests to Azure, Amazon and Google.
    re.compile(r"(?i)((?<![\w-])sig=)([\w%+/=~.-]{8,})"),
    re.compile(r"(?i)((?<![a-z])signature=)([\w%+/=~.-]{16,})"),
)
# --token VALUE and --token=VALUE, in a line that a shell reads.
_OPTION = re.compile(
    r"(?i)(?<!\S)(--"
    r"(?=[\w-]{0,60}(?:token(?!i[sz])|key(?!board)|secret|passw(?:or)?d|passphrase|credential"
    r"|(?<![a-z])(?:pass|pw|auth)(?![a-z])))"
    r"[\w-]{1,80}(?:[ \t]+|=))"
    # Not a value that is already hidden: it keeps its quotes, so that the line can be typed.
    r"(?![\"']\(hidden\))"
    r"(\"[^\"]{1,1000}\"|'[^']{1,1000}'|[^\s\"';&|()-][^\s\"';&|()]{0,1000})"
)

# Request headers. A word before the secret may give its kind.
_HEADERS = (
    (
        re.compile(
            r"(?i)(authorization\\?[\"']?\s{0,8}[:=]\s{0,8}\\?[\"']?"
            r"(?:token|bearer|basic|digest|negotiate|apikey|api-token|hawk|oauth)\s{1,8})"
            r"([^\r\n\"'\\]{1,8192})"
        ),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(
            r"(?i)(authorization\\?[\"']?\s{0,8}[:=]\s{0,8}\\?[\"']?)"
            r"(?!(?:token|bearer|basic|digest|negotiate|apikey|api-token|hawk|oauth)\s)"
            r"([\w.~+/=:-]{16,})"
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)(?<![\w-])((?:set-)?cookie:\s{0,8})([^\r\n\"']{1,8192})"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic) [\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    # .netrc
    (re.compile(r"(?i)(\blogin[ \t]\S{1,100}\s{1,8}password[ \t])(\S{1,1000})"), rf"\1{HIDDEN}"),
)

# Tokens with the prefixes of their issuers.
_PREFIXES = (
    # Hugging Face, GitHub, GitLab.
    r"hf_\w{20,}|api_org_\w{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}",
    r"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas|ffct)-[\w.-]{20,}|GR1348941[\w-]{20,}",
    # Packages: npm, PyPI, RubyGems, Docker, Artifactory.
    r"npm_\w{20,}|pypi-AgE[\w-]{20,}|rubygems_[0-9a-f]{32,}|dckr_[op]at_[\w-]{20,}",
    r"AKCp\w{40,}|cmVmd\w{50,}",
    # Models: OpenAI, Anthropic, NVIDIA, Replicate, Groq, xAI, Perplexity, Weights & Biases.
    r"sk-[\w-]{20,}|nvapi-[\w-]{20,}|r8_\w{30,}|gsk_\w{30,}|xai-\w{30,}|pplx-\w{30,}",
    r"wandb_v1_\w{20,}",
    # Amazon, Google, Azure, Alibaba, Yandex, DigitalOcean, Databricks, fly.io.
    r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|ABSK[\w+/=]{60,}|bedrock-api-key-[\w+/=]{20,}",
    r"AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|LTAI\w{16,}|AQVN[\w-]{30,}",
    r"do[opr]_v1_[0-9a-f]{32,}|dapi[0-9a-f]{32}(?:-\d)?|fo1_[\w-]{40,}|fm[12][ar]?_[\w+/=]{60,}",
    # Slack, SendGrid, Stripe, Shopify, Square, Twilio, Telegram, Mailchimp, Brevo.
    r"xox[a-z](?:\.xox[bp])?-[\w-]{10,}|xapp-[\w-]{10,}|SG\.[\w-]{16,32}\.[\w-]{30,}",
    r"(?:sk|rk)_(?:test|live|prod)_\w{10,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0(?:atp|csp)-[\w-]{20,}",
    r"SK[0-9a-f]{32}|[0-9]{8,12}:AA[\w-]{32,}|[0-9a-f]{32}-us[0-9]{1,2}|xkeysib-[\w-]{60,}",
    # Vault, age, 1Password, OpenShift, Terraform, Pulumi, Grafana, Sentry, Prefect, Postman, ...
    r"hv[sb]\.[\w-]{24,}|AGE-SECRET-KEY-1[0-9A-Z]{40,}|ops_eyJ[\w+/=]{60,}|sha256~[\w-]{40,}",
    r"\w{14}\.atlasv1\.[\w=-]{40,}|pul-[0-9a-f]{40}|gl(?:c|sa)_[\w+/=]{32,}|sntry[su]_[\w+/=]{40,}",
    r"pn[ub]_\w{30,}|PMAK-[\w-]{40,}|ntn_\w{40,}|lin_api_\w{30,}|tfp_[\w.=-]{40,}|sgp_\w{40,}",
    r"pscale_(?:tkn|oauth|pw)_[\w=.-]{32,}|dp\.(?:pt|st|ct)\.[\w.-]{40,}|rdme_[a-z0-9]{60,}",
)
_TOKEN = re.compile(rf"(?<![\w-])(?:{'|'.join(_PREFIXES)})")
# RFC 7519: two parts are JSON.
_JWT = re.compile(r"(?<![\w.-])eyJ[\w-]{8,}\.(?:eyJ[\w-]{4,}|(?=\.))(?:\.[\w-]*){0,3}")
# URLs that are secrets themselves.
_WEBHOOK = re.compile(
    r"(?i)((?:hooks\.slack\.com/(?:services|workflows|triggers)"
    r"|discord(?:app)?\.com/api/webhooks|webhook\.office\.com/webhookb2)/)[\w/@.-]{10,}"
)

# Authority, path, query and fragment of a URL. The pattern takes any text after "://", so that
# nothing is matched twice.
_URL = re.compile(r"://([^\s\"'<>/?#\\]*)([^\s\"'<>?#\\]*)(\?[^\s\"'<>#\\]*)?(#[^\s\"'<>\\]*)?")

_KEY_BEGINS = re.compile(r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----|Private-Lines: ")
_KEY_ENDS = re.compile(r"-----END[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----|Private-MAC: ")
_KEY_LINE = re.compile(r"[\s>|]{0,40}[A-Za-z0-9+/=]{16,100}\s{0,8}")


def hide_forms(text: str) -> str:
    """Return a text with ``(hidden)`` for parts that have the form of a secret.

    Queries of URLs are hidden too: a signed query gives the same access as the password.
    """
    text = _hide_keys(text)
    for header, instead in _HEADERS:
        text = header.sub(instead, text)
    text = hide_urls(text)
    for assigned in _ASSIGNED:
        text = assigned.sub(_hide, text)
    text = _OPTION.sub(_hide, text)
    text = _TOKEN.sub(HIDDEN, text)
    return _WEBHOOK.sub(rf"\1{HIDDEN}", _JWT.sub(HIDDEN, text))


def hide_urls(text: str) -> str:
    """Return a text without the users, passwords, queries and tokens in fragments of its URLs."""
    return _URL.sub(_hide_url, text) if "://" in text else text


def is_count(name: str, value: str) -> bool:
    """Return whether a value is a number of tokens rather than a token."""
    return _TOKENS.search(name) is not None and _NUMBER.fullmatch(value) is not None


def _hide_url(match: re.Match[str]) -> str:
    authority, path, query, fragment = (
        match.group(1),
        match.group(2),
        match[3] or "",
        match[4] or "",
    )
    user, at, host = authority.rpartition("@")
    # A user of ssh without a password is no secret: the key is elsewhere.
    is_name = ":" not in user and match.string.endswith(("ssh", "sftp", "rsync"), 0, match.start())
    if at and user and not is_name:
        authority = f"{HIDDEN}@{host}"
    if "=" in query:
        query = f"?{HIDDEN}"
    if "=" in fragment:
        fragment = f"#{HIDDEN}"
    return f"://{authority}{path}{query}{fragment}"


def _hide(match: re.Match[str]) -> str:
    name, value = match.groups()
    is_hidden = value.strip("'\"") == HIDDEN
    return match.group() if is_hidden or is_count(name, value) else f"{name}{HIDDEN}"


def _hide_keys(text: str) -> str:
    """Return a text without private keys, including keys with one end cut off."""
    if "PRIVATE KEY" not in text and "Private-" not in text:
        return text
    shown, at = [], 0
    end = _KEY_ENDS.search(text)
    while True:
        # If no end is left, there is no further search for one.
        end = _KEY_ENDS.search(text, at) if end else None
        begin = _KEY_BEGINS.search(text, at, end.start() if end else len(text))
        if begin is not None:
            stop = end.end() if end else _after_key_lines(text, begin.end())
            shown += [text[at : begin.start()], HIDDEN]
        elif end is not None:
            # The text begins inside the key.
            start, stop = _before_key_lines(text, at, end.start()), end.end()
            shown += [text[at:start], HIDDEN]
        else:
            return "".join([*shown, text[at:]])
        at = stop


def _after_key_lines(text: str, at: int) -> int:
    """Return the position after the last line of a key whose end was cut off."""
    end = text.find("\n", at)
    if end < 0 or text[at:end].strip():
        # The key is on one line, as in JSON.
        quote = re.compile(r"[\"'\s]").search(text, at)
        return quote.start() if quote else len(text)
    while end >= 0 and (line := _KEY_LINE.match(text, end + 1)) is not None:
        end = text.find("\n", end + 1)
        if end < 0:
            return line.end()
    return end if end >= 0 else len(text)


def _before_key_lines(text: str, at: int, end: int) -> int:
    """Return the start of a key whose beginning was cut off, at ``at`` or later."""
    start = text.rfind("\n", at, end) + 1 or at
    while start > at:
        before = text.rfind("\n", at, start - 1) + 1 or at
        if _KEY_LINE.fullmatch(text, before, start) is None and before > at:
            break
        start = before
    return start
