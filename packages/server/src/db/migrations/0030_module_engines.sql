-- The Terraform versions that a template version allows together with its modules, which are known after its import.
ALTER TABLE template_version_terraform_values
  -- null: imported before this was stored. Then the constraint of the file counts
  ADD COLUMN required_version text,
  -- null: every version
  ADD COLUMN terraform_range int8multirange;
