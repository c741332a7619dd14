import type { Template } from '@ropewalk/contract';
import { useState } from 'react';
import { fieldError } from '../../../api/errors.ts';
import { Checkbox } from '../../../ui/checkbox.tsx';
import { DayPicker } from '../../../ui/day-picker.tsx';
import { Field, Input } from '../../../ui/field.tsx';
import { Form } from '../../../ui/form.tsx';
import { Section } from '../../../ui/page.tsx';
import { SaveButtons } from '../../../ui/save.tsx';
import { paths } from '../../../util/paths.ts';
import { formatDuration } from '../../../util/time.ts';
import { dayNumbers, dayWords } from '../../../util/weekdays.ts';
import { useTemplate } from '../data.ts';
import { SettingsPage } from './settings-page.tsx';
import { useSave } from './use-save.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** The longest time between required stops that the server accepts. */
const MAX_WEEKS = 16;
const FIELDS = [
  'default_ttl_ms',
  'activity_bump_ms',
  'failure_ttl_ms',
  'time_til_dormant_ms',
  'time_til_dormant_autodelete_ms',
  'autostop_requirement.weeks',
] as const;

export default function ScheduleSettings() {
  const template = useTemplate();
  const [discarded, setDiscarded] = useState(0);
  return (
    <SettingsPage template={template} title="Schedule">
      <Schedule key={`${template.id} ${discarded}`} template={template} onDiscard={() => setDiscarded(discarded + 1)} />
    </SettingsPage>
  );
}

function Schedule({ template, onDiscard }: { template: Template; onDiscard: () => void }) {
  const amount = (ms: number, unit: number) => String(ms / unit);
  const [ttl, setTtl] = useState(amount(template.default_ttl_ms, HOUR_MS));
  const [bump, setBump] = useState(amount(template.activity_bump_ms, HOUR_MS));
  const [failure, setFailure] = useState(amount(template.failure_ttl_ms, HOUR_MS));
  const [unused, setUnused] = useState(amount(template.time_til_dormant_ms, DAY_MS));
  const [deletion, setDeletion] = useState(amount(template.time_til_dormant_autodelete_ms, DAY_MS));
  const [startDays, setStartDays] = useState(dayNumbers(template.autostart_requirement.days_of_week));
  const [stopDays, setStopDays] = useState(dayNumbers(template.autostop_requirement.days_of_week));
  const [weeks, setWeeks] = useState(String(template.autostop_requirement.weeks || 1));
  const [autostart, setAutostart] = useState(template.allow_user_autostart);
  const [autostop, setAutostop] = useState(template.allow_user_autostop);
  const [useFromNow, setUseFromNow] = useState(true);
  const [dormantFromNow, setDormantFromNow] = useState(true);
  const save = useSave(template, paths.templateSchedule);
  const times = {
    default_ttl_ms: milliseconds(ttl, HOUR_MS),
    activity_bump_ms: milliseconds(bump, HOUR_MS),
    failure_ttl_ms: milliseconds(failure, HOUR_MS),
    time_til_dormant_ms: milliseconds(unused, DAY_MS),
    time_til_dormant_autodelete_ms: milliseconds(deletion, DAY_MS),
  };
  const next = {
    ...times,
    allow_user_autostart: autostart,
    allow_user_autostop: autostop,
    autostart_requirement: { days_of_week: dayWords(startDays) },
    autostop_requirement: { days_of_week: dayWords(stopDays), weeks: Number(weeks) },
  };
  const before = {
    ...template,
    autostart_requirement: { days_of_week: dayWords(dayNumbers(template.autostart_requirement.days_of_week)) },
    autostop_requirement: {
      days_of_week: dayWords(dayNumbers(template.autostop_requirement.days_of_week)),
      weeks: template.autostop_requirement.weeks || 1,
    },
  };
  const changed = (Object.keys(next) as (keyof typeof next)[]).filter(
    (name) => JSON.stringify(next[name]) !== JSON.stringify(before[name]),
  );
  const isWeeks = Number.isInteger(Number(weeks)) && Number(weeks) >= 1 && Number(weeks) <= MAX_WEEKS;
  const daysProblem = autostart && startDays.length === 0 ? 'Choose at least one day.' : undefined;
  const isValid = Object.values(times).every(Number.isFinite) && isWeeks && !daysProblem;
  const dormancyBegins = changed.includes('time_til_dormant_ms') && times.time_til_dormant_ms > 0;
  const deletionBegins = changed.includes('time_til_dormant_autodelete_ms') && times.time_til_dormant_autodelete_ms > 0;
  const error = (field: (typeof FIELDS)[number]) => fieldError(save.error, field);
  return (
    <Form
      onSubmit={() =>
        save.mutate({
          ...next,
          // the server reads a body with both requirements as all settings
          allow_user_cancel_workspace_jobs: template.allow_user_cancel_workspace_jobs,
          require_active_version: template.require_active_version,
          ...(dormancyBegins && useFromNow ? { update_workspace_last_used_at: true } : {}),
          ...(deletionBegins && dormantFromNow ? { update_workspace_dormant_at: true } : {}),
        })
      }
      error={save.error}
      fields={FIELDS}
      actions={
        <SaveButtons
          changed={changed.length > 0}
          problem={isValid ? undefined : 'A value is not valid.'}
          pending={save.isPending}
          onDiscard={onDiscard}
        />
      }
    >
      <Section title="Autostop" description="When a running workspace stops by itself.">
        <Time
          label="Hours until autostop"
          unit={HOUR_MS}
          none="New workspaces run until somebody stops them."
          some={(time) => `New workspaces stop ${time} after their start.`}
          value={ttl}
          onChange={setTtl}
          error={error('default_ttl_ms')}
        />
        <Time
          label="Hours that activity adds"
          unit={HOUR_MS}
          none="Activity does not postpone the stop."
          some={(time) => `While somebody uses a workspace, its stop is at least ${time} away.`}
          value={bump}
          onChange={setBump}
          error={error('activity_bump_ms')}
        />
        <Checkbox
          checked={autostop}
          onChange={setAutostop}
          label="People may set their own autostop"
          help="Without it, all workspaces have the time above."
        />
      </Section>
      <Section
        title="Required stop"
        description="Workspaces stop in the quiet hours of their owner, however much they are used, so that they get updates."
      >
        <DayPicker
          label="Days"
          days={stopDays}
          onChange={setStopDays}
          help={stopDays.length === 0 ? 'No day is chosen: nothing requires a stop.' : undefined}
        />
        {stopDays.length > 0 && (
          <Field
            label="Weeks between the stops"
            help={Number(weeks) === 1 ? 'Every week.' : `Only in every ${ordinal(Number(weeks))} week.`}
            error={
              error('autostop_requirement.weeks') ?? (isWeeks ? undefined : `Enter a number from 1 to ${MAX_WEEKS}.`)
            }
          >
            <Input
              type="number"
              min={1}
              max={MAX_WEEKS}
              className="max-w-32"
              value={weeks}
              onChange={(event) => setWeeks(event.target.value)}
            />
          </Field>
        )}
      </Section>
      <Section title="Autostart" description="When a stopped workspace starts by itself.">
        <Checkbox
          checked={autostart}
          onChange={setAutostart}
          label="People may set an autostart"
          help="Without it, no workspace of this template starts by itself."
        />
        {autostart && (
          <DayPicker
            label="Days on which workspaces may start"
            days={startDays}
            onChange={setStartDays}
            error={daysProblem}
          />
        )}
      </Section>
      <Section title="Failed and unused workspaces">
        <Time
          label="Hours until a failed start is stopped"
          unit={HOUR_MS}
          none="A workspace whose start failed stays as it is."
          some={(time) => `A workspace whose start failed is stopped after ${time}.`}
          value={failure}
          onChange={setFailure}
          error={error('failure_ttl_ms')}
        />
        <Time
          label="Days without use until a workspace is dormant"
          unit={DAY_MS}
          none="Unused workspaces stay as they are."
          some={(time) =>
            `After ${time} without use, a workspace is stopped. Its owner must activate it to use it again.`
          }
          value={unused}
          onChange={setUnused}
          error={error('time_til_dormant_ms')}
        />
        {dormancyBegins && (
          <Checkbox
            checked={useFromNow}
            onChange={setUseFromNow}
            label="Count from now"
            help="Without it, workspaces that have been unused for this long become dormant immediately."
          />
        )}
        <Time
          label="Days until a dormant workspace is deleted"
          unit={DAY_MS}
          none="Dormant workspaces are kept."
          some={(time) => `${time} after it became dormant, a workspace and its data are deleted.`}
          value={deletion}
          onChange={setDeletion}
          error={error('time_til_dormant_autodelete_ms')}
        />
        {deletionBegins && (
          <Checkbox
            checked={dormantFromNow}
            onChange={setDormantFromNow}
            label="Count from now for dormant workspaces"
            help="Without it, workspaces that have been dormant for this long are deleted immediately."
          />
        )}
      </Section>
    </Form>
  );
}

const ordinal = (count: number): string =>
  `${count}${count % 100 > 10 && count % 100 < 14 ? 'th' : (['th', 'st', 'nd', 'rd'][count % 10] ?? 'th')}`;

/** NaN for anything but a number from 0. */
function milliseconds(amount: string, unit: number): number {
  const value = amount.trim() === '' ? 0 : Number(amount);
  return value >= 0 ? Math.round(value * unit) : Number.NaN;
}

function Time({
  label,
  unit,
  none,
  some,
  value,
  onChange,
  error,
}: {
  label: string;
  /** In ms. */
  unit: number;
  none: string;
  some: (time: string) => string;
  value: string;
  onChange: (value: string) => void;
  error: string | undefined;
}) {
  const ms = milliseconds(value, unit);
  const wrong = Number.isFinite(ms) ? undefined : 'Enter a number, 0 or more.';
  return (
    <Field label={label} help={wrong ? undefined : ms === 0 ? none : some(formatDuration(ms))} error={error ?? wrong}>
      <Input
        type="number"
        min={0}
        step="any"
        className="max-w-32"
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    </Field>
  );
}
