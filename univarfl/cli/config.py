"""``univarfl config``: the resolved experiment, and where each value comes from."""

from univarfl.cli.arguments import Words

CONFIG_HELP = """Show every setting of an experiment, and its source.

\b
  univarfl config
  univarfl config data=pacs method=moon rounds=5
\b
The sources are: default (conf/config.yaml), a file of conf/, or override (a word that you typed).
Nothing is run. The settings are checked as by 'univarfl train'. With resume=RUN they are those of
that run; other directories are not looked for.
"""


def config(overrides: Words = None) -> None:
    """Show the resolved experiment."""
    from server_app.config.composition import compose_experiment  # noqa: PLC0415
    from server_app.config.override_text import as_typed  # noqa: PLC0415
    from server_app.config.resuming import whole_words  # noqa: PLC0415
    from univarfl.cli.origins import origins  # noqa: PLC0415

    words = whole_words(overrides or [])
    settings = compose_experiment(words).model_dump()
    del settings["published"]
    rows = [(key, as_typed(value), source) for key, value, source in origins(words, settings)]
    keys, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    for key, value, source in rows:
        print(f"{key:<{keys}}  {value:<{min(values, 40)}}  {source}")
