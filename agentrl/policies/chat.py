"""Chat formats: roles and turns of conversations, one renderer per model family.

Models come with templates in a programming language (Jinja), which are not executed. The renderers
here were written from the published formats: ChatML (Qwen, SmolLM), Llama 2, Llama 3, Mistral and
Gemma; and "plain" for models without roles. A conversation is

    opening, observation, after, reply, end, before, observation, after, reply, end, before, ...

where the opening contains the rules of the environment.
"""

from collections.abc import Callable
from typing import NamedTuple

from envs.text import Grammar


class Mark(str):
    """The name of a control token, such as "<|im_end|>"; a plain str stands for text to encode."""


Parts = tuple[str, ...]


class Chat(NamedTuple):
    """Text and control tokens around observations and replies: strings and `Mark`s.

    end: the token that ends a reply; None: the model's EOS.
    """

    opening: Parts
    before: Parts
    after: Parts
    end: Mark | None


def chatml(rules: str) -> Chat:
    """Qwen, SmolLM and many others: <|im_start|>role, text, <|im_end|>."""
    start, end = Mark("<|im_start|>"), Mark("<|im_end|>")
    user = (start, "user\n")
    return Chat(
        opening=(start, f"system\n{rules}", end, "\n", *user),
        before=("\n", *user),
        after=(end, "\n", start, "assistant\n"),
        end=end,
    )


def chatml_no_thinking(rules: str) -> Chat:
    """Qwen 3's format for replies without thoughts: an empty thought precedes each reply."""
    chat = chatml(rules)
    return chat._replace(after=(*chat.after, "<think>\n\n</think>\n\n"))


def llama3(rules: str) -> Chat:
    """Llama 3: headers around roles. The dates that its template adds are left out."""
    end = Mark("<|eot_id|>")

    def header(role: str) -> Parts:
        return (Mark("<|start_header_id|>"), role, Mark("<|end_header_id|>"), "\n\n")

    system = (Mark("<|begin_of_text|>"), *header("system"), rules, end)
    return Chat(
        opening=(*system, *header("user")),
        before=header("user"),
        after=(end, *header("assistant")),
        end=end,
    )


def llama2(rules: str) -> Chat:
    """Llama 2: [INST] ... [/INST], the rules within the first one."""
    user = (Mark("<s>"), Mark("[INST]"), " ")
    return Chat(
        opening=(*user, f"<<SYS>>\n{rules}\n<</SYS>>\n\n"),
        before=user,
        after=(" ", Mark("[/INST]")),
        end=Mark("</s>"),
    )


def mistral(rules: str) -> Chat:
    """Mistral's instruction-tuned models, which have no system role: the rules begin the first
    turn."""
    user = (Mark("[INST]"), " ")
    return Chat(
        opening=(Mark("<s>"), *user, f"{rules}\n\n"),
        before=user,
        after=(Mark("[/INST]"),),
        end=Mark("</s>"),
    )


def gemma(rules: str) -> Chat:
    """Gemma 2 and 3, which have no system role: the rules begin the first turn."""
    end, user = Mark("<end_of_turn>"), (Mark("<start_of_turn>"), "user\n")
    return Chat(
        opening=(Mark("<bos>"), *user, f"{rules}\n\n"),
        before=("\n", *user),
        after=(end, "\n", Mark("<start_of_turn>"), "model\n"),
        end=end,
    )


def plain(rules: str) -> Chat:
    """No roles: the rules, then observations and replies on lines of their own."""
    return Chat(opening=(f"{rules}\n\n",), before=("\n\n",), after=("\n",), end=None)


CHATS: dict[str, Callable[[str], Chat]] = {
    chat.__name__: chat
    for chat in (chatml, chatml_no_thinking, gemma, llama2, llama3, mistral, plain)
}
# The control tokens identify the family, except for Llama 2 and Mistral, whose marks are plain
# text.
_SIGNS = {"<|im_start|>": "chatml", "<|start_header_id|>": "llama3", "<start_of_turn>": "gemma"}


def recognise(tokens: set[str]) -> str:
    """The renderer for a tokenizer with these control tokens; "plain" if they match none."""
    return next((name for sign, name in _SIGNS.items() if sign in tokens), "plain")


def instructions(grammar: Grammar) -> str:
    """Instructions on the reply format, for the rules."""
    if grammar.name == "bare":
        return "Answer with one command and nothing else."
    tag = grammar.name
    how = f"write one command between <{tag}> and </{tag}>."
    if grammar.max_actions > 1:
        how = (
            f"write at most {grammar.max_actions} commands between <{tag}> and </{tag}>, separated "
            "by ||."
        )
    if grammar.think == "none":
        return how[0].upper() + how[1:]
    may = "First think" if grammar.think == "required" else "You may think first,"
    return f"{may} between <think> and </think>; then {how}"
