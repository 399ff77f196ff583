"""Progress of long work: what a caller passes on to show it, and the default, which shows nothing."""


class _Silent:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def update(self, count=1):
        pass

    def set_description_str(self, text, refresh=True):
        pass


def silent(iterable=None, **options):
    """Takes the place of tqdm: returns the iterable itself, or a bar that shows nothing where there is none."""
    return _Silent() if iterable is None else iterable
