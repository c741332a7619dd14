-- New templates evaluate their parameters for each form and build. Existing ones keep the flow that they have.
ALTER TABLE templates ALTER COLUMN use_classic_parameter_flow SET DEFAULT false;
