-- The providers and modules that the import of a template version has fixed, so that every daemon builds with the same.
-- The archive of the modules is in template_version_terraform_values.
CREATE TABLE template_version_frozen (
  template_version_id uuid PRIMARY KEY REFERENCES template_versions (id) ON DELETE CASCADE,
  -- a hash of the choices of registries
  id text NOT NULL,
  platform text NOT NULL,
  engine text NOT NULL,
  -- whether the daemon attached its own coder provider, so that it is not among the packages
  attached boolean NOT NULL,
  lock_file text NOT NULL
);
CREATE TABLE template_version_packages (
  template_version_id uuid NOT NULL REFERENCES template_version_frozen (template_version_id) ON DELETE CASCADE,
  address text NOT NULL,
  version text NOT NULL,
  checksum text NOT NULL,
  -- null: the package was too large to store
  file_id uuid REFERENCES files (id),
  PRIMARY KEY (template_version_id, address)
);
CREATE INDEX template_version_packages_checksum ON template_version_packages (checksum);
-- files that nothing references are deleted
CREATE INDEX template_version_packages_file ON template_version_packages (file_id) WHERE file_id IS NOT NULL;
