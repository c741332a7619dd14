-- New templates evaluate their parameters for each form and build. Existing ones keep the flow that they have.
ALTER TABLE templates ALTER COLUMN use_classic_parameter_flow SET DEFAULT false;

-- Whether the files of a version mention parameters. Otherwise builds need no evaluation.
ALTER TABLE template_version_terraform_values ADD COLUMN has_parameters boolean NOT NULL DEFAULT true;
