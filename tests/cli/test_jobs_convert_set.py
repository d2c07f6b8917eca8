"""``tarmac convert --set``: what its messages suggest can be typed."""

from __future__ import annotations


def test_what_a_conversion_lacks_can_be_set_as_its_message_says(tarmac, tmp_path):
    (tmp_path / "job.yaml").write_text("name: x\ncommand: 'true'\n")
    code, _, err = tarmac("convert", "job.yaml", "--to", "kubernetes")
    assert code == 2
    assert "--set options.kubernetes.image=" in err
    code, out, err = tarmac(
        "convert", "job.yaml", "--to", "kubernetes", "--set", "options.kubernetes.image=python:3.12"
    )
    assert code == 0, err
    assert "image: python:3.12" in out


def test_a_value_of_the_file_is_changed_before_it_is_converted(tarmac, tmp_path):
    (tmp_path / "job.yaml").write_text("name: x\ncommand: 'true'\n")
    code, out, _ = tarmac("convert", "job.yaml", "--set", "resources.cpus=3")
    assert code == 0
    assert "cpus: 3" in out
