"""Tables, figures and the report: the only place for matplotlib and jinja2 (extra `report`)."""
