-- Titles that people give their tasks. Without one, a task shows the beginning of its prompt.
-- oldest program: 61
-- runs: in one transaction

ALTER TABLE workspaces ADD COLUMN task_display_name text NOT NULL DEFAULT '';
