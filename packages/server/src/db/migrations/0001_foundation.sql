-- The foundation: people, organizations, templates, workspaces, jobs, agents.
-- Job rules: docs/decisions (job ownership). Times are timestamptz, ids uuid; enums are text with a CHECK, so that a
-- new value is one forward migration.

CREATE TABLE site_config (
  key text PRIMARY KEY,
  value text NOT NULL
);

CREATE TABLE organizations (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  name text NOT NULL,
  display_name text NOT NULL DEFAULT '',
  description text NOT NULL DEFAULT '',
  icon text NOT NULL DEFAULT '',
  is_default boolean NOT NULL DEFAULT false,
  deleted boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX organizations_name ON organizations (lower(name)) WHERE NOT deleted;
CREATE UNIQUE INDEX organizations_one_default ON organizations (is_default) WHERE is_default;

CREATE TABLE users (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  username text NOT NULL,
  email text NOT NULL,
  name text NOT NULL DEFAULT '',
  avatar_url text NOT NULL DEFAULT '',
  hashed_password text NOT NULL DEFAULT '',
  login_type text NOT NULL DEFAULT 'password' CHECK (login_type IN ('password', 'github', 'oidc', 'token', 'none')),
  status text NOT NULL DEFAULT 'dormant' CHECK (status IN ('active', 'dormant', 'suspended')),
  rbac_roles text[] NOT NULL DEFAULT '{}',
  theme_preference text NOT NULL DEFAULT '',
  terminal_font text NOT NULL DEFAULT '',
  quiet_hours_schedule text NOT NULL DEFAULT '',
  is_system boolean NOT NULL DEFAULT false,
  deleted boolean NOT NULL DEFAULT false,
  last_seen_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX users_username ON users (lower(username)) WHERE NOT deleted;
CREATE UNIQUE INDEX users_email ON users (lower(email)) WHERE NOT deleted AND email <> '';

CREATE TABLE organization_members (
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  roles text[] NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX organization_members_user ON organization_members (user_id);

-- Session and API tokens are `<id>-<secret>`; only the SHA-256 of the secret is kept.
CREATE TABLE api_keys (
  id text PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  hashed_secret bytea NOT NULL,
  token_name text NOT NULL DEFAULT '',
  login_type text NOT NULL,
  scope text NOT NULL DEFAULT 'all' CHECK (scope IN ('all', 'application_connect')),
  lifetime_seconds bigint NOT NULL,
  ip_address text NOT NULL DEFAULT '',
  last_used timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX api_keys_user ON api_keys (user_id);
CREATE UNIQUE INDEX api_keys_token_name ON api_keys (user_id, token_name) WHERE login_type = 'token';

CREATE TABLE git_ssh_keys (
  user_id uuid PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
  private_key text NOT NULL,
  public_key text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE files (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  hash text NOT NULL, -- SHA-256, hex
  mimetype text NOT NULL,
  data bytea NOT NULL,
  created_by uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (hash, created_by)
);

CREATE TABLE provisioner_keys (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name text NOT NULL,
  hashed_secret bytea NOT NULL,
  tags jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX provisioner_keys_name ON provisioner_keys (organization_id, lower(name));

-- Identity is (organization, name, owner tag, credential): the same name with another credential is another daemon.
CREATE TABLE provisioner_daemons (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name varchar(64) NOT NULL,
  key_id uuid NOT NULL,
  credential text NOT NULL,
  provisioners text[] NOT NULL,
  tags jsonb NOT NULL,
  version text NOT NULL DEFAULT '',
  api_version text NOT NULL DEFAULT '1.0',
  last_seen_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX provisioner_daemons_identity
  ON provisioner_daemons (organization_id, name, lower(coalesce(tags ->> 'owner', '')), credential);

CREATE TABLE provisioner_jobs (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  initiator_id uuid NOT NULL REFERENCES users (id),
  provisioner text NOT NULL DEFAULT 'terraform',
  type text NOT NULL CHECK (type IN ('template_version_import', 'workspace_build', 'template_version_dry_run')),
  file_id uuid NOT NULL REFERENCES files (id),
  input jsonb NOT NULL,
  tags jsonb NOT NULL DEFAULT '{"scope": "organization", "owner": ""}',
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  canceled_at timestamptz,
  completed_at timestamptz,
  error text,
  error_code text,
  worker_id uuid,
  -- Ownership: every write of a worker names (id, worker_id, acquire_epoch); the lease says how long silence is borne.
  acquire_epoch bigint NOT NULL DEFAULT 0,
  lease_expires_at timestamptz,
  force_canceled boolean NOT NULL DEFAULT false,
  job_status text GENERATED ALWAYS AS (
    CASE
      -- a cancel that was asked for is what the person sees, whatever text the daemon ended with
      WHEN completed_at IS NOT NULL AND canceled_at IS NOT NULL THEN 'canceled'
      WHEN error IS NOT NULL AND error <> '' THEN 'failed'
      WHEN completed_at IS NOT NULL THEN 'succeeded'
      WHEN canceled_at IS NOT NULL THEN 'canceling'
      WHEN started_at IS NULL THEN 'pending'
      ELSE 'running'
    END
  ) STORED
);
CREATE INDEX provisioner_jobs_pending ON provisioner_jobs (organization_id, created_at)
  WHERE started_at IS NULL AND completed_at IS NULL AND canceled_at IS NULL;
CREATE INDEX provisioner_jobs_running ON provisioner_jobs (worker_id) WHERE started_at IS NOT NULL AND completed_at IS NULL;
CREATE INDEX provisioner_jobs_worker ON provisioner_jobs (worker_id, completed_at DESC);
CREATE INDEX provisioner_jobs_org_created ON provisioner_jobs (organization_id, created_at DESC);

CREATE TABLE provisioner_job_logs (
  id bigserial PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES provisioner_jobs (id) ON DELETE CASCADE,
  created_at timestamptz NOT NULL,
  source text NOT NULL,
  level text NOT NULL,
  stage varchar(128) NOT NULL,
  output varchar(1024) NOT NULL
);
CREATE INDEX provisioner_job_logs_job ON provisioner_job_logs (job_id, id);

CREATE TABLE provisioner_job_timings (
  job_id uuid NOT NULL REFERENCES provisioner_jobs (id) ON DELETE CASCADE,
  started_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL,
  stage text NOT NULL,
  source text NOT NULL,
  action text NOT NULL,
  resource text NOT NULL
);
CREATE INDEX provisioner_job_timings_job ON provisioner_job_timings (job_id);

CREATE TABLE templates (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name text NOT NULL,
  display_name text NOT NULL DEFAULT '',
  description text NOT NULL DEFAULT '',
  icon text NOT NULL DEFAULT '',
  deprecated text NOT NULL DEFAULT '',
  provisioner text NOT NULL DEFAULT 'terraform',
  active_version_id uuid NOT NULL,
  created_by uuid NOT NULL REFERENCES users (id),
  default_ttl_ms bigint NOT NULL DEFAULT 0,
  activity_bump_ms bigint NOT NULL DEFAULT 3600000,
  failure_ttl_ms bigint NOT NULL DEFAULT 0,
  time_til_dormant_ms bigint NOT NULL DEFAULT 0,
  time_til_dormant_autodelete_ms bigint NOT NULL DEFAULT 0,
  autostop_requirement_days text[] NOT NULL DEFAULT '{}',
  autostop_requirement_weeks bigint NOT NULL DEFAULT 1,
  autostart_days text[] NOT NULL DEFAULT '{monday,tuesday,wednesday,thursday,friday,saturday,sunday}',
  allow_user_cancel_workspace_jobs boolean NOT NULL DEFAULT true,
  allow_user_autostart boolean NOT NULL DEFAULT true,
  allow_user_autostop boolean NOT NULL DEFAULT true,
  require_active_version boolean NOT NULL DEFAULT false,
  use_classic_parameter_flow boolean NOT NULL DEFAULT true,
  max_port_share_level text NOT NULL DEFAULT 'owner',
  -- {"<user or group uuid>": "use" | "admin"}; the organization's id stands for everyone in it
  user_acl jsonb NOT NULL DEFAULT '{}',
  group_acl jsonb NOT NULL DEFAULT '{}',
  deleted boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX templates_name ON templates (organization_id, lower(name)) WHERE NOT deleted;

CREATE TABLE template_versions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  template_id uuid REFERENCES templates (id),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name text NOT NULL,
  message text NOT NULL DEFAULT '',
  readme text NOT NULL DEFAULT '',
  job_id uuid NOT NULL UNIQUE REFERENCES provisioner_jobs (id),
  created_by uuid NOT NULL REFERENCES users (id),
  archived boolean NOT NULL DEFAULT false,
  has_ai_task boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX template_versions_name ON template_versions (template_id, lower(name));
ALTER TABLE templates ADD FOREIGN KEY (active_version_id) REFERENCES template_versions (id) DEFERRABLE INITIALLY DEFERRED;

CREATE TABLE template_version_parameters (
  template_version_id uuid NOT NULL REFERENCES template_versions (id) ON DELETE CASCADE,
  name text NOT NULL,
  display_name text NOT NULL DEFAULT '',
  description text NOT NULL DEFAULT '',
  type text NOT NULL,
  form_type text NOT NULL DEFAULT '',
  mutable boolean NOT NULL,
  ephemeral boolean NOT NULL DEFAULT false,
  required boolean NOT NULL,
  default_value text NOT NULL,
  icon text NOT NULL DEFAULT '',
  options jsonb NOT NULL DEFAULT '[]',
  validation_regex text NOT NULL DEFAULT '',
  validation_min integer,
  validation_max integer,
  validation_monotonic text NOT NULL DEFAULT '',
  validation_error text NOT NULL DEFAULT '',
  display_order integer NOT NULL DEFAULT 0,
  PRIMARY KEY (template_version_id, name)
);

CREATE TABLE template_version_variables (
  template_version_id uuid NOT NULL REFERENCES template_versions (id) ON DELETE CASCADE,
  name text NOT NULL,
  description text NOT NULL DEFAULT '',
  type text NOT NULL DEFAULT '',
  value text NOT NULL DEFAULT '',
  default_value text NOT NULL DEFAULT '',
  required boolean NOT NULL DEFAULT false,
  sensitive boolean NOT NULL DEFAULT false,
  PRIMARY KEY (template_version_id, name)
);

CREATE TABLE template_version_workspace_tags (
  template_version_id uuid NOT NULL REFERENCES template_versions (id) ON DELETE CASCADE,
  key text NOT NULL,
  value text NOT NULL, -- HCL source
  PRIMARY KEY (template_version_id, key)
);

CREATE TABLE template_version_presets (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  template_version_id uuid NOT NULL REFERENCES template_versions (id) ON DELETE CASCADE,
  name text NOT NULL,
  description text NOT NULL DEFAULT '',
  icon text NOT NULL DEFAULT '',
  is_default boolean NOT NULL DEFAULT false,
  desired_instances integer,
  parameters jsonb NOT NULL DEFAULT '{}' -- name → value
);
CREATE INDEX template_version_presets_version ON template_version_presets (template_version_id);

CREATE TABLE template_version_external_auth (
  template_version_id uuid NOT NULL REFERENCES template_versions (id) ON DELETE CASCADE,
  provider_id text NOT NULL,
  optional boolean NOT NULL DEFAULT false,
  PRIMARY KEY (template_version_id, provider_id)
);

CREATE TABLE template_version_terraform_values (
  template_version_id uuid PRIMARY KEY REFERENCES template_versions (id) ON DELETE CASCADE,
  cached_plan jsonb NOT NULL DEFAULT '{}',
  module_files_id uuid REFERENCES files (id),
  provisionerd_version text NOT NULL DEFAULT ''
);

CREATE TABLE workspaces (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  owner_id uuid NOT NULL REFERENCES users (id),
  organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  template_id uuid NOT NULL REFERENCES templates (id),
  name text NOT NULL,
  autostart_schedule text,
  ttl_ms bigint,
  automatic_updates text NOT NULL DEFAULT 'never' CHECK (automatic_updates IN ('always', 'never')),
  dormant_at timestamptz,
  deleting_at timestamptz,
  next_start_at timestamptz,
  last_used_at timestamptz,
  deleted boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX workspaces_name ON workspaces (owner_id, lower(name)) WHERE NOT deleted;
CREATE INDEX workspaces_template ON workspaces (template_id) WHERE NOT deleted;

CREATE TABLE workspace_favorites (
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  PRIMARY KEY (user_id, workspace_id)
);

CREATE TABLE workspace_builds (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  workspace_id uuid NOT NULL REFERENCES workspaces (id),
  template_version_id uuid NOT NULL REFERENCES template_versions (id),
  template_version_preset_id uuid REFERENCES template_version_presets (id) ON DELETE SET NULL,
  build_number integer NOT NULL,
  transition text NOT NULL CHECK (transition IN ('start', 'stop', 'delete')),
  initiator_id uuid NOT NULL REFERENCES users (id),
  job_id uuid NOT NULL UNIQUE REFERENCES provisioner_jobs (id),
  reason text NOT NULL DEFAULT 'initiator',
  provisioner_state bytea,
  -- of the last state taken, so that an older one never overwrites a newer one
  state_serial bigint NOT NULL DEFAULT 0,
  state_lineage text NOT NULL DEFAULT '',
  in_flight text[] NOT NULL DEFAULT '{}',
  deadline timestamptz,
  max_deadline timestamptz,
  daily_cost integer NOT NULL DEFAULT 0,
  has_ai_task boolean,
  ai_task_sidebar_app_id uuid,
  warning text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (workspace_id, build_number)
);

CREATE TABLE workspace_build_parameters (
  workspace_build_id uuid NOT NULL REFERENCES workspace_builds (id) ON DELETE CASCADE,
  name text NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (workspace_build_id, name)
);

-- State that came too late to be the workspace's own, kept so that nothing it names is lost.
CREATE TABLE orphan_states (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  workspace_build_id uuid NOT NULL REFERENCES workspace_builds (id) ON DELETE CASCADE,
  state bytea NOT NULL,
  serial bigint NOT NULL,
  lineage text NOT NULL,
  reason text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE workspace_resources (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  job_id uuid NOT NULL REFERENCES provisioner_jobs (id) ON DELETE CASCADE,
  transition text NOT NULL,
  type text NOT NULL,
  name text NOT NULL,
  hide boolean NOT NULL DEFAULT false,
  icon text NOT NULL DEFAULT '',
  instance_type text,
  daily_cost integer NOT NULL DEFAULT 0,
  module_path text,
  metadata jsonb NOT NULL DEFAULT '[]', -- [{key, value, sensitive}]
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX workspace_resources_job ON workspace_resources (job_id);

CREATE TABLE workspace_modules (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  job_id uuid NOT NULL REFERENCES provisioner_jobs (id) ON DELETE CASCADE,
  transition text NOT NULL,
  source text NOT NULL,
  version text NOT NULL,
  key text NOT NULL
);
CREATE INDEX workspace_modules_job ON workspace_modules (job_id);

CREATE TABLE workspace_agents (
  id uuid PRIMARY KEY,
  parent_id uuid REFERENCES workspace_agents (id) ON DELETE CASCADE,
  resource_id uuid NOT NULL REFERENCES workspace_resources (id) ON DELETE CASCADE,
  name text NOT NULL,
  auth_token uuid NOT NULL,
  auth_instance_id text,
  architecture text NOT NULL,
  operating_system text NOT NULL,
  environment_variables jsonb NOT NULL DEFAULT '{}',
  directory text NOT NULL DEFAULT '',
  expanded_directory text NOT NULL DEFAULT '',
  motd_file text NOT NULL DEFAULT '',
  troubleshooting_url text NOT NULL DEFAULT '',
  connection_timeout_seconds integer NOT NULL DEFAULT 120,
  display_apps text[] NOT NULL DEFAULT '{}',
  display_order integer NOT NULL DEFAULT 0,
  api_key_scope text NOT NULL DEFAULT 'all',
  version text NOT NULL DEFAULT '',
  api_version text NOT NULL DEFAULT '',
  subsystems text[] NOT NULL DEFAULT '{}',
  capabilities text[] NOT NULL DEFAULT '{}',
  ssh_host_key text NOT NULL DEFAULT '',
  lifecycle_state text NOT NULL DEFAULT 'created',
  started_at timestamptz,
  ready_at timestamptz,
  first_connected_at timestamptz,
  last_connected_at timestamptz,
  disconnected_at timestamptz,
  -- counts connections: the highest number is the newest, on whichever server it was taken
  connection_number bigint NOT NULL DEFAULT 0,
  logs_length bigint NOT NULL DEFAULT 0,
  logs_overflowed boolean NOT NULL DEFAULT false,
  deleted boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX workspace_agents_resource ON workspace_agents (resource_id);
CREATE INDEX workspace_agents_token ON workspace_agents (auth_token);
CREATE INDEX workspace_agents_instance ON workspace_agents (auth_instance_id) WHERE auth_instance_id IS NOT NULL;

CREATE TABLE workspace_agent_log_sources (
  id uuid NOT NULL,
  workspace_agent_id uuid NOT NULL REFERENCES workspace_agents (id) ON DELETE CASCADE,
  display_name text NOT NULL,
  icon text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (workspace_agent_id, id)
);

CREATE TABLE workspace_agent_scripts (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  workspace_agent_id uuid NOT NULL REFERENCES workspace_agents (id) ON DELETE CASCADE,
  log_source_id uuid NOT NULL,
  display_name text NOT NULL DEFAULT '',
  log_path text NOT NULL DEFAULT '',
  script text NOT NULL,
  cron text NOT NULL DEFAULT '',
  run_on_start boolean NOT NULL DEFAULT false,
  run_on_stop boolean NOT NULL DEFAULT false,
  start_blocks_login boolean NOT NULL DEFAULT false,
  timeout_seconds integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX workspace_agent_scripts_agent ON workspace_agent_scripts (workspace_agent_id);

CREATE TABLE workspace_agent_script_timings (
  script_id uuid NOT NULL REFERENCES workspace_agent_scripts (id) ON DELETE CASCADE,
  started_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL,
  exit_code integer NOT NULL,
  stage text NOT NULL,
  status text NOT NULL
);
CREATE INDEX workspace_agent_script_timings_script ON workspace_agent_script_timings (script_id);

CREATE TABLE workspace_agent_logs (
  id bigserial PRIMARY KEY,
  agent_id uuid NOT NULL REFERENCES workspace_agents (id) ON DELETE CASCADE,
  log_source_id uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  level text NOT NULL DEFAULT 'info',
  output varchar(1024) NOT NULL
);
CREATE INDEX workspace_agent_logs_agent ON workspace_agent_logs (agent_id, id);

CREATE TABLE workspace_agent_metadata (
  workspace_agent_id uuid NOT NULL REFERENCES workspace_agents (id) ON DELETE CASCADE,
  key text NOT NULL,
  display_name text NOT NULL DEFAULT '',
  script text NOT NULL,
  interval_seconds bigint NOT NULL DEFAULT 0,
  timeout_seconds bigint NOT NULL DEFAULT 0,
  display_order integer NOT NULL DEFAULT 0,
  value text NOT NULL DEFAULT '',
  error text NOT NULL DEFAULT '',
  collected_at timestamptz,
  PRIMARY KEY (workspace_agent_id, key)
);

CREATE TABLE workspace_agent_stats (
  id bigserial PRIMARY KEY,
  agent_id uuid NOT NULL REFERENCES workspace_agents (id) ON DELETE CASCADE,
  workspace_id uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  rx_bytes bigint NOT NULL DEFAULT 0,
  tx_bytes bigint NOT NULL DEFAULT 0,
  session_count_vscode bigint NOT NULL DEFAULT 0,
  session_count_jetbrains bigint NOT NULL DEFAULT 0,
  session_count_reconnecting_pty bigint NOT NULL DEFAULT 0,
  session_count_ssh bigint NOT NULL DEFAULT 0,
  connection_median_latency_ms double precision NOT NULL DEFAULT -1
);
CREATE INDEX workspace_agent_stats_created ON workspace_agent_stats (created_at);

CREATE TABLE workspace_apps (
  id uuid PRIMARY KEY,
  agent_id uuid NOT NULL REFERENCES workspace_agents (id) ON DELETE CASCADE,
  slug text NOT NULL,
  display_name text NOT NULL DEFAULT '',
  icon text NOT NULL DEFAULT '',
  command text,
  url text,
  external boolean NOT NULL DEFAULT false,
  subdomain boolean NOT NULL DEFAULT false,
  sharing_level text NOT NULL DEFAULT 'owner',
  hidden boolean NOT NULL DEFAULT false,
  open_in text NOT NULL DEFAULT 'slim-window',
  display_group text NOT NULL DEFAULT '',
  display_order integer NOT NULL DEFAULT 0,
  healthcheck_url text NOT NULL DEFAULT '',
  healthcheck_interval integer NOT NULL DEFAULT 0,
  healthcheck_threshold integer NOT NULL DEFAULT 0,
  health text NOT NULL DEFAULT 'disabled',
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (agent_id, slug)
);

CREATE TABLE audit_logs (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  time timestamptz NOT NULL DEFAULT now(),
  user_id uuid,
  organization_id uuid,
  resource_type text NOT NULL,
  resource_id text NOT NULL,
  resource_target text NOT NULL DEFAULT '',
  action text NOT NULL,
  status_code integer NOT NULL,
  ip text NOT NULL DEFAULT '',
  user_agent text NOT NULL DEFAULT '',
  request_id text NOT NULL DEFAULT '',
  additional_fields jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_logs_time ON audit_logs (time DESC);

-- One rule for who may run what, the same as matches() in code: an untagged job only on an exactly untagged daemon,
-- any other job where its tags are a subset of the daemon's.
CREATE FUNCTION provisioner_tags_match(daemon jsonb, job jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN job = '{"scope": "organization", "owner": ""}'::jsonb THEN daemon = job
    ELSE daemon @> job
  END
$$;
