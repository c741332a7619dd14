-- Kept with an uploaded template, beside the required version: whether it names tags for its workspaces.
-- Null: nobody looked.

ALTER TABLE files ADD COLUMN names_workspace_tags boolean;
