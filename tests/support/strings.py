"""Strings that are hard to fold."""

from hypothesis import strategies as st

# Any text, and text that is dense in what folding is about: accents, marks of several scripts,
# compatibility forms, letters that change their length with case, apostrophes, the invisible.
tricky = st.text(
    "aAéÉßİıǅŉſﬁ½Ωάΐᾳσς\u0345гЙкかがカｶﾞㄱㅏ각กักिक़'\u2019\u02bc\u00b4\uff07`-+%/(). \t\n"
    "\u0301\u0304\u0308\u0315\u05c1\u3099\u200b\u200c\u200d\u00ad\u2028\u0085\ufeff\x00\x1f",
    max_size=8,
)
texts = st.text(max_size=8) | tricky
