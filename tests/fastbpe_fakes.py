"""A small vocabulary of fastBPE."""

# l o w</w> -> low; e r</w> -> er; x y -> xy, which is not in the vocabulary.
MERGES = [("l", "o"), ("lo", "w</w>"), ("e", "r</w>"), ("o", "w"), ("l", "ow"),
          ("x", "y"), ("xy", "z</w>"), ("lo", "w"), ("a", "\xa0")]
VOCAB = ["low", "er", "low@@", "lo@@", "w@@", "w", "l@@", "o@@", "o", "e@@",
         "r", "x@@", "y@@", "z", "y", "Books", "\xa0", "a\xa0@@", "b", "."]
