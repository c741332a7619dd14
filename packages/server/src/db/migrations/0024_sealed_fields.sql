-- Further fields of tokens can be secrets, too: a JSON text, which may be encrypted. Empty: none.
ALTER TABLE external_auth_links ALTER COLUMN extra DROP DEFAULT;
ALTER TABLE external_auth_links ALTER COLUMN extra TYPE text USING CASE WHEN extra = '{}' THEN '' ELSE extra::text END;
ALTER TABLE external_auth_links ALTER COLUMN extra SET DEFAULT '';

-- As for the other secrets of the owner: versions from before whose module files are known were not searched.
ALTER TABLE template_version_terraform_values ADD COLUMN modules_oidc_token boolean NOT NULL DEFAULT false;
UPDATE template_version_terraform_values SET modules_oidc_token = true WHERE module_files_id IS NOT NULL;
