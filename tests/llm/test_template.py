"""Templates of chats: those of models, and hostile ones."""

from __future__ import annotations

import sys

import pytest

from tests.llm import building
from tfn.errors import ArgumentError, MissingPackageError, StateError, TfnError
from tfn.llm import template
from tfn.llm.template import Template

pytest.importorskip("jinja2", reason="pip install 'tfn[llm]' to test templates of chats")

HI = [{"role": "user", "content": "Hi"}]


def test_a_chat_becomes_the_text_of_the_model() -> None:
    text = Template(building.TEMPLATE).render(HI)
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    other = Template(
        "{{ bos_token }}{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}"
        "{{ m['content'] | trim }}{{ tools | tojson }}{% endfor %}", bos="<s>"
    )  # fmt: skip
    assert other.render(HI + HI, tools=[{"a": "ä"}]) == '<s>Hi[{"a": "ä"}]'


def test_a_template_may_refuse_messages() -> None:
    refusing = Template("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(ArgumentError, match="roles must alternate"):
        refusing.render(HI)
    with pytest.raises(ArgumentError, match="dicts of texts"):
        refusing.render([{"content": object()}])


HOSTILE = {
    "class of a tuple": "{{ ().__class__.__base__.__subclasses__() }}",
    "globals of a function": "{{ cycler.__init__.__globals__.os.popen('true').read() }}",
    "format of a secret": "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "change of the messages": "{% set x = messages.append(1) %}",
    "no template": "{% for %}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "much text": "{% for i in range(90000) %}{{ 'x' * 1000 }}{% endfor %}",
    "much memory": "{{ ('x' * 2000000000) | length }}",
    "large power": "{{ 9 ** (9 ** 9) }}",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_templates_end_in_an_error(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "SECONDS", 3.0)
    try:
        text = Template(HOSTILE[what]).render(HI)
    except TfnError as error:
        assert "template" in str(error)
    else:
        assert what == "format of a secret" and "dict" not in text


def test_a_template_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "SECONDS", 1.0)
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(StateError, match="runs for more than 1 s"):
        Template(loops).render(HI)


def test_without_jinja_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(MissingPackageError, match=r"pip install 'tfn\[llm\]'"):
        Template("").render(HI)


def test_one_process_runs_all_templates_until_one_must_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Template("{{ 1 }}").render(HI) == "1"
    process = template._worker.process
    assert [Template(f"{{{{ {n} }}}}").render(HI) for n in range(3)] == ["0", "1", "2"]
    assert process is not None and template._worker.process is process
    monkeypatch.setattr(template, "SECONDS", 0.5)
    with pytest.raises(StateError):
        Template("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
                 ).render(HI)  # fmt: skip
    monkeypatch.undo()
    assert process.returncode is not None
    assert Template("{{ 2 }}").render(HI) == "2"
