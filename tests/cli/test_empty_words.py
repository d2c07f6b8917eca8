"""An empty word, as of a variable that is not set, stands for no run and no directory."""

from __future__ import annotations

WORDS = [
    ("run", ""),
    ("convert", ""),
    ("train", "digits-mlp", "--output", ""),
    ("train", "--resume", ""),
    ("search", "--resume", ""),
    ("run", "--resume", ""),
    ("runs", "rm", "--yes", ""),
    ("runs", "show", ""),
    ("report", ""),
    ("eval", ""),
    ("export", "", "--to", "onnx"),
    ("logs", ""),
    ("cancel", ""),
    ("ps", ""),
    ("search", "show", ""),
]


def test_an_empty_word_is_refused_where_each_name_begins_with_one(tmp_path, tarmac):
    (tmp_path / "job.yaml").write_text("{name: x, tasks: [{name: a, command: 'true'}]}")
    made = [
        ("train", "digits-mlp", "--epochs", "1", "--devices", "cpu"),
        ("search", "digits-mlp", "--trials", "1", "--epochs", "1", "--set", "hidden=8,16"),
        ("run", "job.yaml"),
    ]
    for words in made:
        assert tarmac(*words)[0] == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    answers = {words: tarmac(*words) for words in WORDS}
    assert {words: code for words, (code, _, _) in answers.items()} == dict.fromkeys(WORDS, 2)
    assert [words for words, (_, _, err) in answers.items() if "empty" not in err] == []
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*")} == before
