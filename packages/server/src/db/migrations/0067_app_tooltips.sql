-- The text of templates that the dashboard shows with an app, in Markdown.
-- oldest program: 61
-- runs: in one transaction

ALTER TABLE workspace_apps ADD COLUMN tooltip text NOT NULL DEFAULT '';
