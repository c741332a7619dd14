import type { DueWorkspace } from '../../../db/queries/schedules.ts';
import { WEEKDAYS } from '../times.ts';

const MORNING = new Date('2026-03-02T08:00:00Z');

/** A running workspace without a schedule, made on a Monday at 8:00, whose id has no jitter. */
export const dueWorkspace = (more: Partial<DueWorkspace>): DueWorkspace => ({
  id: '00000000-0000-4000-8000-000000000000',
  name: 'dev',
  owner_id: '',
  owner_name: 'ada',
  organization_id: '',
  template_id: '',
  autostart_schedule: null,
  next_start_at: null,
  automatic_updates: 'never',
  dormant_at: null,
  user_acl: {},
  group_acl: {},
  deleting_at: null,
  last_used_at: MORNING,
  created_at: MORNING,
  template_active_version_id: '',
  require_active_version: false,
  allow_user_autostart: true,
  autostart_days: [...WEEKDAYS],
  failure_ttl_ms: 0,
  time_til_dormant_ms: 0,
  time_til_dormant_autodelete_ms: 0,
  row_version: '1',
  owner_status: 'active',
  automatic_attempts: 0,
  automatic_retry_at: null,
  automatic_error: '',
  build_number: 1,
  transition: 'start',
  reason: 'initiator',
  deadline: null,
  template_version_id: '',
  job_status: 'succeeded',
  completed_at: MORNING,
  ...more,
});
