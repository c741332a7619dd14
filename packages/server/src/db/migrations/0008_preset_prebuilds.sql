-- What a preset says of its prebuilt workspaces besides how many there are.
ALTER TABLE template_version_presets
  -- Seconds after which an unclaimed one is replaced; empty: never.
  ADD COLUMN prebuild_ttl_seconds integer,
  -- Of the schedules; empty where there are none.
  ADD COLUMN prebuild_time_zone text NOT NULL DEFAULT '',
  -- [{"cron": …, "instances": …}] in the template's order
  ADD COLUMN prebuild_schedules jsonb NOT NULL DEFAULT '[]';
