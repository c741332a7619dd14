-- The Terraform versions of daemons, and those that templates require. Versions are numbers in the order of versions
-- (packages/kit/src/version-constraint.ts).
ALTER TABLE provisioner_daemons
  -- such as "terraform 1.11.4". Upstream's daemons do not report them
  ADD COLUMN engines text[] NOT NULL DEFAULT '{}',
  ADD COLUMN engine_versions bigint[] NOT NULL DEFAULT '{}';

ALTER TABLE files
  -- the constraint in a template's archive. Null: no import has looked yet
  ADD COLUMN required_version text,
  ADD COLUMN terraform_range int8multirange;

ALTER TABLE provisioner_jobs
  ADD COLUMN required_version text NOT NULL DEFAULT '',
  -- null: every version
  ADD COLUMN terraform_range int8multirange;

-- Whether a daemon with these versions may run a job. One that does not report versions may run any.
CREATE FUNCTION terraform_matches(wanted int8multirange, versions bigint[]) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN wanted IS NULL OR cardinality(versions) = 0
    OR EXISTS (SELECT FROM unnest(versions) AS version WHERE wanted @> version);
