-- Which secrets of the workspace owner the fetched modules of a version name. Versions from before whose module files
-- are known were not searched: their builds get all.
ALTER TABLE template_version_terraform_values
  ADD COLUMN modules_session_token boolean NOT NULL DEFAULT false,
  ADD COLUMN modules_ssh_key boolean NOT NULL DEFAULT false;
UPDATE template_version_terraform_values SET modules_session_token = true, modules_ssh_key = true
  WHERE module_files_id IS NOT NULL;
