-- given: somebody set the value, so builds pass it to Terraform. Otherwise Terraform uses the default in the template's
-- files. Earlier versions passed every value, and their workspaces stay as they are.
-- position: the place of the variable among those of the template.
ALTER TABLE template_version_variables
  ADD COLUMN given boolean NOT NULL DEFAULT false,
  ADD COLUMN position integer NOT NULL DEFAULT 0;
UPDATE template_version_variables SET given = value <> '' OR default_value <> '' OR required;
