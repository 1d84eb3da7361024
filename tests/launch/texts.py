"""Texts that are hard to hand through a shell, for Hypothesis to choose from."""

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12)
HARD = st.lists(
    st.sampled_from(
        [*" \t\r\n'\"\\$`,;*?[]{}()<>|&!#~=-", "\\n", "$(id)", "#PBS -q prod", "\udcff", "x", "\u00e9"]
    ),
    max_size=8,
).map("".join)
ANY = TEXT | HARD
NAMES = st.sampled_from(
    ["A", "job", "env", "nodes", "cores", "options", "status", "starts", "journal", "STEPS"]
)
