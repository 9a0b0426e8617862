"""Chat templates: a context's prompts in the language in which serving programs render them."""

from agentrl.actors.contexts import Context


def chat_template(
    context: Context, *, before: str, after: str, end: str, opening: str | None = None
) -> str:
    """A Jinja template that renders a conversation as the context composes the prompt of a reply.

    Users' messages are observations, the assistant's are replies. Which of them are shown follows
    `agentrl.actors.transcript.Layout`. A text that a context inserts into observations is part of
    the template. Summaries and branches are not: see `left_out`.

    Args:
      before, after: text before an observation, and between it and the reply. end: after a reply.
      opening: text at the start, instead of the first observation's `before`; None: `before`.
    """
    shown = _recent(context)
    recent = shown
    if context.history is not None and context.keep_first:
        shown += " or at.turn == 0"
    kept = "true" if context.replies is None else recent
    if context.history is not None and context.replies:
        kept = f"at.turn >= now - {max(context.history, context.replies)}"
    text = "message['content']"
    if isinstance(context.inject, str) and context.inject:
        due = f"at.turn % {context.inject_every}" if context.inject_every else "at.turn"
        text = f"({_quoted(context.inject)} if {due} == 0 else '') ~ {text}"
    first = _quoted(before if opening is None else opening)
    lines = [
        "{%- set now = messages | selectattr('role', 'equalto', 'user') | list | length - 1 -%}",
        "{%- set at = namespace(turn=-1, begun=false) -%}",
        "{%- for message in messages -%}",
        "{%- if message['role'] == 'user' -%}",
        "{%- set at.turn = at.turn + 1 -%}",
        f"{{%- if {shown} or {kept} -%}}",
        f"{{{{- {_quoted(before)} if at.begun else {first} -}}}}",
        "{%- set at.begun = true -%}",
        f"{{%- if {shown} -%}}{{{{- {text} -}}}}{{%- endif -%}}",
        "{%- if at.turn < now or add_generation_prompt or messages[-1]['role'] == 'assistant' -%}",
        f"{{{{- {_quoted(after)} -}}}}",
        "{%- endif -%}{%- endif -%}",
        "{%- elif message['role'] == 'assistant' -%}",
        f"{{%- if {kept} -%}}",
        f"{{{{- message['content'] ~ {_quoted(end)} -}}}}",
        "{%- endif -%}{%- else -%}",
        "{{- raise_exception('expected messages of user and assistant in turn: observations and '"
        " ~ 'replies; instructions are part of this template') -}}",
        "{%- endif -%}{%- endfor -%}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """The text as a string literal of Jinja, in single quotes, with escapes."""
    escapes = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return f"'{''.join(escapes.get(letter, letter) for letter in text)}'"


def left_out(context: Context) -> str:
    """What a context does to prompts that `chat_template` cannot say, in words; "" if nothing."""
    if context.limit is not None:
        return (
            f"the chat template keeps all turns: the policy was trained with summaries from "
            f"{context.limit} tokens on"
        )
    if context.branch:
        return "the chat template keeps all turns: the policy was trained without closed branches"
    if context.inject and not isinstance(context.inject, str):
        return "the chat template lacks the text that the context drew from each state"
    return ""


def _recent(context: Context) -> str:
    """The condition under which the observation of a turn is still in view."""
    if context.history is None:
        return "true"
    if context.stride == 1:
        return f"at.turn >= now - {context.history}"
    first, stride = int(context.keep_first), context.stride
    beyond = f"(now - {context.history} - {first} + {stride - 1}) // {stride}"
    return f"now <= {context.history} or at.turn >= {first} + {stride} * ({beyond})"
