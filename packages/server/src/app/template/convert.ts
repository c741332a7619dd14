import type { Template, TemplateVersion } from '@ropewalk/contract';
import type { Db } from '../../db/connect.ts';
import { type BuildTimes, type ListedTemplate, templateUsers } from '../../db/queries/templates.ts';
import type { VersionRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { jobsById } from '../job/convert.ts';
import { time } from '../values/time.ts';
import { recentBuildTimes } from './build-times.ts';

const UNKNOWN = { P50: null, P95: null };
/** Of templates without recent builds, which share it: a list can have thousands of them. */
const NO_TIMES: Template['build_time_stats'] = { start: UNKNOWN, stop: UNKNOWN, delete: UNKNOWN };

function toBuildTimes(times: readonly BuildTimes[] | undefined): Template['build_time_stats'] {
  if (!times) return NO_TIMES;
  const known = times.map(({ transition, p50, p95 }) => [transition, { P50: Math.round(p50), P95: Math.round(p95) }]);
  return { ...NO_TIMES, ...Object.fromEntries(known) };
}

/** Templates in the API's shape, with their build times and the number of people who use them. */
export async function toTemplates(db: Db, rows: ListedTemplate[]): Promise<Template[]> {
  if (rows.length === 0) return [];
  const ids = rows.map((row) => row.id);
  const [times, users] = await Promise.all([recentBuildTimes(db, ids), templateUsers(db, ids)]);
  const usersOf = new Map(users.map((row) => [row.template_id, row.users]));
  const timesOf = Map.groupBy(times, ({ template_id }) => template_id);
  return rows.map((row): Template => {
    return {
      id: row.id,
      created_at: time(row.created_at),
      updated_at: time(row.updated_at),
      organization_id: row.organization_id,
      organization_name: row.organization_name,
      organization_display_name: row.organization_display_name,
      organization_icon: row.organization_icon,
      name: row.name,
      display_name: row.display_name,
      provisioner: row.provisioner,
      active_version_id: row.active_version_id,
      active_user_count: usersOf.get(row.id) ?? 0,
      build_time_stats: toBuildTimes(timesOf.get(row.id)),
      description: row.description,
      deprecated: row.deprecated !== '',
      deprecation_message: row.deprecated,
      icon: row.icon,
      default_ttl_ms: row.default_ttl_ms,
      activity_bump_ms: row.activity_bump_ms,
      autostop_requirement: {
        days_of_week: row.autostop_requirement_days as Template['autostop_requirement']['days_of_week'],
        weeks: row.autostop_requirement_weeks,
      },
      autostart_requirement: { days_of_week: row.autostart_days as Template['autostart_requirement']['days_of_week'] },
      created_by_id: row.created_by,
      created_by_name: row.created_by_name,
      allow_user_autostart: row.allow_user_autostart,
      allow_user_autostop: row.allow_user_autostop,
      allow_user_cancel_workspace_jobs: row.allow_user_cancel_workspace_jobs,
      failure_ttl_ms: row.failure_ttl_ms,
      time_til_autostop_notify_ms: row.time_til_autostop_notify_ms,
      time_til_dormant_ms: row.time_til_dormant_ms,
      time_til_dormant_autodelete_ms: row.time_til_dormant_autodelete_ms,
      require_active_version: row.require_active_version,
      max_port_share_level: row.max_port_share_level as Template['max_port_share_level'],
      use_classic_parameter_flow: row.use_classic_parameter_flow,
      cors_behavior: row.cors_behavior,
      disable_module_cache: row.disable_module_cache,
      deleted: row.deleted,
    };
  });
}

export async function toVersions(ctx: Ctx, db: Db, rows: VersionRow[]): Promise<TemplateVersion[]> {
  const jobs = await jobsById(
    ctx,
    db,
    rows.map((row) => row.job_id),
  );
  return rows.map((row): TemplateVersion => {
    const job = jobs.get(row.job_id)!;
    return {
      id: row.id,
      ...(row.template_id ? { template_id: row.template_id } : {}),
      organization_id: row.organization_id,
      created_at: time(row.created_at),
      updated_at: time(row.updated_at),
      name: row.name,
      message: row.message,
      job,
      readme: row.readme,
      created_by: {
        id: row.created_by,
        username: row.created_by_name,
        name: row.created_by_full_name,
        avatar_url: row.created_by_avatar_url,
      },
      archived: row.archived,
      has_external_agent: row.has_external_agent,
      ...(job.pending_reason ? { matched_provisioners: job.pending_reason.matched_provisioners } : {}),
    };
  });
}
