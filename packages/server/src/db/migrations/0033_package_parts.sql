-- The archives of large provider packages are stored in several files. The first is the package's file_id.
CREATE TABLE template_version_package_parts (
  template_version_id uuid NOT NULL,
  address text NOT NULL,
  -- from 1 on
  place int NOT NULL,
  file_id uuid NOT NULL REFERENCES files (id),
  PRIMARY KEY (template_version_id, address, place),
  FOREIGN KEY (template_version_id, address) REFERENCES template_version_packages ON DELETE CASCADE
);
-- files that nothing references are deleted
CREATE INDEX template_version_package_parts_file ON template_version_package_parts (file_id);
