"""The inventory of a data set's attributes, if they are one."""

# More different attributes than this are text.
_MOST = 10_000
# So are attributes of which a document has on average more than this share:
# nearly each its own, as prompts.
_SHARE = 0.5


class Inventory:
  """Collects the attributes of training documents."""

  def __init__(self):
    self._seen = set()
    self._documents = 0

  def add(self, attribute: str) -> None:
    """Adds a document's; "" is none."""
    if attribute:
      self._documents += 1
      if len(self._seen) <= _MOST:
        self._seen.add(attribute)

  def merge(self, other: "Inventory") -> None:
    """Adds all that another one has."""
    self._documents += other._documents
    if len(self._seen) <= _MOST:
      self._seen |= other._seen

  def attributes(self) -> tuple[str, ...]:
    """Returns them, sorted; () if they are text rather than an inventory.

    A model that learned from an inventory knows no other attribute.

    Example:

    >>> found = Inventory()
    >>> for attribute in ("soon", "however", "soon", "soon"):
    ...   found.add(attribute)
    >>> found.attributes()
    ('however', 'soon')
    """
    count = len(self._seen)
    if count > min(_MOST, _SHARE * self._documents):
      return ()
    return tuple(sorted(self._seen))
