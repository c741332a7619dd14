import { AppError, type Validation } from '@ropewalk/kit';

interface Ttls {
  default_ttl_ms?: number;
  activity_bump_ms?: number;
  failure_ttl_ms?: number;
  dormant_ttl_ms?: number;
  delete_ttl_ms?: number;
  time_til_autostop_notify_ms?: number;
  time_til_dormant_ms?: number;
  time_til_dormant_autodelete_ms?: number;
  autostop_requirement?: { weeks?: number };
}

const MINUTE_MS = 60_000;

/** Rejects times that make no sense. */
export function checkTtls(input: Ttls): void {
  const wrong: Validation[] = [];
  for (const field of [
    'default_ttl_ms',
    'activity_bump_ms',
    'failure_ttl_ms',
    'dormant_ttl_ms',
    'delete_ttl_ms',
    'time_til_dormant_ms',
    'time_til_dormant_autodelete_ms',
  ] as const) {
    if ((input[field] ?? 0) < 0) wrong.push({ field, detail: 'must not be negative' });
  }
  const reminder = input.time_til_autostop_notify_ms ?? 0;
  if (reminder !== 0 && reminder < MINUTE_MS)
    wrong.push({ field: 'time_til_autostop_notify_ms', detail: 'must be 0 (no reminder) or at least a minute' });
  const weeks = input.autostop_requirement?.weeks ?? 0;
  if (weeks < 0 || weeks > 16) wrong.push({ field: 'autostop_requirement.weeks', detail: 'must be 0 to 16' });
  if (wrong.length > 0) throw new AppError('invalid', 'Invalid template times.', { validations: wrong });
}

export function checkDescription(description = ''): void {
  if (description.length <= 128) return;
  throw new AppError('invalid', 'Invalid description.', {
    validations: [{ field: 'description', detail: 'must be at most 128 characters long' }],
  });
}
