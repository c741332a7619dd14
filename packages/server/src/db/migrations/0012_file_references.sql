-- Files that nothing references are deleted: PostgreSQL looks for references to each of them.
CREATE INDEX provisioner_jobs_file ON provisioner_jobs (file_id);
CREATE INDEX template_version_terraform_values_module_files ON template_version_terraform_values (module_files_id)
  WHERE module_files_id IS NOT NULL;
