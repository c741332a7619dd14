import type { Template, Workspace } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../../api/client.ts';
import { errorText } from '../../../api/errors.ts';
import { workspacePermissions } from '../../../api/permissions.ts';
import { apiQuery, useChange } from '../../../api/query.ts';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { DayPicker, dayNames } from '../../../ui/day-picker.tsx';
import { Field, Input, NativeSelect } from '../../../ui/field.tsx';
import { Link } from '../../../ui/link.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Section } from '../../../ui/page.tsx';
import { SaveButtons } from '../../../ui/save.tsx';
import { QueryView } from '../../../ui/states.tsx';
import { toast } from '../../../ui/toast.tsx';
import { paths } from '../../../util/paths.ts';
import { formatDateTime, formatRelative, isZeroTime, serverNow } from '../../../util/time.ts';
import { dayNumbers } from '../../../util/weekdays.ts';
import { useCurrentWorkspace } from '../detail/current.ts';
import { refreshWorkspace } from '../queries.ts';
import { formatSchedule, parseSchedule, startsBetween, type WeeklySchedule, weekBlocks } from './schedule.ts';

const HOUR_MS = 3_600_000;
const DAYS_SHOWN = 7;
/** The longest time to live that the server accepts. */
const MAX_HOURS = 720;

/** When a workspace starts and stops by itself. */
export default function SchedulePage() {
  const workspace = useCurrentWorkspace();
  const template = useQuery(
    apiQuery('GET /templates/{template}', [{ kind: 'template', id: workspace.template_id }], {
      params: { template: workspace.template_id },
    }),
  );
  return (
    <QueryView query={template}>
      {(data) => (
        <ScheduleForm
          key={`${workspace.autostart_schedule ?? ''} ${workspace.ttl_ms ?? 0}`}
          workspace={workspace}
          template={data}
        />
      )}
    </QueryView>
  );
}

/** What a person has entered of a workspace's schedule, what is wrong with it, and what it changes. */
function useDraft(workspace: Workspace, allowedDays: readonly number[]) {
  const saved = parseSchedule(workspace.autostart_schedule);
  const [schedule, setSchedule] = useState(saved);
  const savedHours = workspace.ttl_ms ? String(workspace.ttl_ms / HOUR_MS) : '';
  const [hours, setHours] = useState(savedHours);
  const number = Number(hours.replace(',', '.'));
  const hoursProblem =
    hours === '' || (number >= 1 / 60 && number <= MAX_HOURS)
      ? undefined
      : `Enter a number of hours up to ${MAX_HOURS}, or nothing.`;
  const ttlMs = hours === '' || hoursProblem ? undefined : Math.round(number * HOUR_MS);
  const isNever = schedule && !schedule.days.some((day) => allowedDays.includes(day));
  const daysProblem = isNever
    ? schedule.days.length === 0
      ? 'Choose at least one day.'
      : `Choose a day that the template allows: ${dayNames(allowedDays)}.`
    : undefined;
  const text = schedule ? formatSchedule(schedule) : '';
  return {
    schedule,
    setSchedule,
    daysProblem,
    /** As the API writes the schedule. */
    text,
    startChanged: text !== (saved ? formatSchedule(saved) : ''),
    hours,
    setHours,
    hoursProblem,
    ttlMs,
    stopChanged: ttlMs !== (workspace.ttl_ms || undefined),
    /** Whether the form can show the saved schedule. */
    isKnown: !workspace.autostart_schedule || saved !== undefined,
    discard() {
      setSchedule(saved);
      setHours(savedHours);
    },
  };
}

type Draft = ReturnType<typeof useDraft>;

function useSave(workspace: Workspace, { text, startChanged, ttlMs, stopChanged }: Draft) {
  return useChange(
    async () => {
      const params = { workspace: workspace.id };
      if (startChanged) await call('PUT /workspaces/{workspace}/autostart', { params, body: { schedule: text } });
      if (stopChanged) await call('PUT /workspaces/{workspace}/ttl', { params, body: { ttl_ms: ttlMs ?? 0 } });
      await refreshWorkspace(workspace.id);
      toast({ title: 'Saved.' });
    },
    { ownError: true },
  );
}

function ScheduleForm({ workspace, template }: { workspace: Workspace; template: Template }) {
  const { allow_user_autostart: mayStart, allow_user_autostop: mayStop } = template;
  const allowedDays = dayNumbers(template.autostart_requirement.days_of_week);
  const may = useQuery(workspacePermissions(workspace)).data;
  const mismatch = useQuery(
    apiQuery('GET /workspaces/{workspace}/resolve-autostart', [{ kind: 'workspace', id: workspace.id }], {
      params: { workspace: workspace.id },
    }),
  ).data?.parameter_mismatch;
  const draft = useDraft(workspace, allowedDays);
  const { schedule, hoursProblem } = draft;
  const save = useSave(workspace, draft);
  const readOnly = !may?.update;
  const changed = !readOnly && (draft.startChanged || draft.stopChanged || hoursProblem !== undefined);
  return (
    <form
      className="flex flex-col gap-5"
      onSubmit={(event) => {
        event.preventDefault();
        if (changed) save.mutate();
      }}
    >
      {mismatch && (
        <Notice
          tone="warn"
          title="The next automatic start will fail"
          detail="The newest version of the template needs values that this workspace does not have. Update the workspace to enter them."
        />
      )}
      <Week
        workspace={workspace}
        schedule={
          schedule && mayStart
            ? { ...schedule, days: schedule.days.filter((day) => allowedDays.includes(day)) }
            : undefined
        }
        ttlMs={mayStop ? draft.ttlMs : template.default_ttl_ms || undefined}
      />
      <Section title="Start" description="The workspace starts at this time on each chosen day.">
        {!draft.isKnown && (
          <Notice tone="warn" title={`This form cannot show the schedule ${workspace.autostart_schedule}`} />
        )}
        {mayStart ? (
          <StartFields
            schedule={schedule}
            onChange={draft.setSchedule}
            disabled={readOnly}
            allowedDays={allowedDays}
            problem={draft.daysProblem}
          />
        ) : (
          <p className="text-muted">The template does not permit automatic starts.</p>
        )}
      </Section>
      <Stop template={template} draft={draft} disabled={readOnly} />
      {save.error != null && <Notice tone="bad" {...errorText(save.error)} />}
      <div className="flex flex-wrap gap-2 empty:hidden">
        <SaveButtons
          changed={changed}
          problem={hoursProblem ?? draft.daysProblem}
          pending={save.isPending}
          onDiscard={draft.discard}
        />
      </div>
    </form>
  );
}

function Stop({ template, draft, disabled }: { template: Template; draft: Draft; disabled: boolean }) {
  const { allow_user_autostop: mayStop, default_ttl_ms: defaultMs, autostop_requirement: required } = template;
  return (
    <Section title="Stop" description="The workspace stops this long after a start. Activity can postpone the stop.">
      {mayStop ? (
        <Field
          label="Hours after a start"
          help="Leave it empty to keep the workspace running until you stop it."
          error={draft.hoursProblem}
        >
          <Input
            inputMode="decimal"
            className="max-w-32"
            value={draft.hours}
            disabled={disabled}
            onChange={(event) => draft.setHours(event.target.value.trim())}
          />
        </Field>
      ) : (
        <p className="text-muted">
          {defaultMs > 0
            ? `The template stops its workspaces ${hoursText(defaultMs)} after a start.`
            : 'The template does not stop its workspaces after a time.'}
        </p>
      )}
      {required.days_of_week.length > 0 && (
        <p className="text-muted">
          The template requires a stop in your quiet hours on {dayNames(dayNumbers(required.days_of_week))}
          {required.weeks > 1 ? `, every ${required.weeks} weeks` : ''}. You can{' '}
          <Link to={paths.settings('schedule')}>change your quiet hours</Link>.
        </p>
      )}
    </Section>
  );
}

const ZONES = Intl.supportedValuesOf('timeZone');
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

function StartFields({
  schedule,
  onChange,
  disabled,
  allowedDays,
  problem,
}: {
  schedule: WeeklySchedule | undefined;
  onChange: (schedule: WeeklySchedule | undefined) => void;
  disabled: boolean;
  allowedDays: readonly number[];
  problem: string | undefined;
}) {
  if (!schedule)
    return (
      <div className="flex flex-wrap items-center gap-3">
        <span className="text-muted">It starts only when somebody starts it.</span>
        <Button
          disabled={disabled}
          onClick={() => onChange({ zone: OWN_ZONE, hour: 8, minute: 0, days: [1, 2, 3, 4, 5] })}
        >
          Add a schedule
        </Button>
      </div>
    );
  const two = (value: number) => String(value).padStart(2, '0');
  const zones = ZONES.includes(schedule.zone) ? ZONES : [schedule.zone, ...ZONES];
  return (
    <>
      <DayPicker
        label="Days"
        days={schedule.days}
        onChange={(days) => onChange({ ...schedule, days })}
        disabled={disabled}
        help={allowedDays.length < 7 ? `The template allows automatic starts on: ${dayNames(allowedDays)}.` : undefined}
        error={problem}
      />
      <div className="grid gap-4 sm:grid-cols-[8rem_minmax(0,20rem)]">
        <Field label="Time">
          <Input
            type="time"
            required
            value={`${two(schedule.hour)}:${two(schedule.minute)}`}
            disabled={disabled}
            onChange={(event) => {
              const [hour, minute] = event.target.value.split(':').map(Number);
              if (hour !== undefined && minute !== undefined) onChange({ ...schedule, hour, minute });
            }}
          />
        </Field>
        <Field label="Time zone">
          <NativeSelect
            value={schedule.zone}
            disabled={disabled}
            onChange={(event) => onChange({ ...schedule, zone: event.target.value })}
          >
            {zones.map((zone) => (
              <option key={zone}>{zone}</option>
            ))}
          </NativeSelect>
        </Field>
      </div>
      <div>
        <Button size="sm" disabled={disabled} onClick={() => onChange(undefined)}>
          Remove the schedule
        </Button>
      </div>
    </>
  );
}

const dayLabel = new Intl.DateTimeFormat(undefined, { weekday: 'short', day: 'numeric' });

/** The next start and stop in words, and the coming week as a small calendar. */
function Week({
  workspace,
  schedule,
  ttlMs,
}: {
  workspace: Workspace;
  schedule: WeeklySchedule | undefined;
  ttlMs: number | undefined;
}) {
  const now = serverNow();
  const midnights = Array.from({ length: DAYS_SHOWN + 1 }, (_, at) => {
    const day = new Date(now);
    day.setHours(0, 0, 0, 0);
    day.setDate(day.getDate() + at);
    return day.getTime();
  });
  const { latest_build: build } = workspace;
  const runs = build.status === 'running' || build.status === 'starting';
  const deadline = isZeroTime(build.deadline) ? undefined : Date.parse(build.deadline!);
  const isLast = deadline !== undefined && deadline === Date.parse(build.max_deadline ?? '');
  const current = runs ? { from: Date.parse(build.job.completed_at ?? build.created_at), to: deadline } : undefined;
  const blocks = weekBlocks(schedule, ttlMs, midnights, current, now);
  const next = schedule && startsBetween(schedule, Math.max(now, deadline ?? 0), now + 8 * 24 * HOUR_MS)[0];
  const sentences = [
    runs
      ? deadline
        ? `It runs now and stops ${formatRelative(deadline)}, on ${formatDateTime(deadline)}${isLast ? ', as the template requires' : ''}.`
        : 'It runs now until somebody stops it.'
      : 'It does not run now.',
    schedule
      ? next
        ? `It starts ${formatRelative(next)}, on ${formatDateTime(next)}${ttlMs ? ` and stops ${hoursText(ttlMs)} later` : ''}.`
        : ''
      : 'It does not start by itself.',
  ];
  return (
    <Section title="The next seven days">
      <p>{sentences.filter(Boolean).join(' ')}</p>
      <div aria-hidden="true" className="grid grid-cols-[3.5rem_minmax(0,1fr)] items-center gap-x-3 gap-y-1 text-sm">
        {midnights.slice(0, -1).map((midnight, day) => (
          <div key={midnight} className="contents">
            <span className={cx('truncate', day === 0 ? 'font-medium' : 'text-muted')}>
              {dayLabel.format(midnight)}
            </span>
            <div className="relative h-5 overflow-hidden rounded-sm bg-sunken">
              {[6, 12, 18].map((hour) => (
                <span
                  key={hour}
                  className="absolute inset-y-0 w-px bg-line"
                  style={{ left: `${(hour / 24) * 100}%` }}
                />
              ))}
              {blocks
                .filter((block) => block.day === day)
                .map((block) => (
                  <span
                    key={block.from}
                    className="absolute inset-y-0.5 rounded-xs bg-good/70"
                    style={{ left: `${block.from * 100}%`, width: `${(block.to - block.from) * 100}%` }}
                  />
                ))}
              {day === 0 && (
                <span
                  className="absolute inset-y-0 w-0.5 bg-bad"
                  style={{ left: `${((now - midnight) / (midnights[1]! - midnight)) * 100}%` }}
                />
              )}
            </div>
          </div>
        ))}
        <span />
        <div className="flex justify-between text-faint text-xs">
          <span>0</span>
          <span>6</span>
          <span>12</span>
          <span>18</span>
          <span>24</span>
        </div>
      </div>
    </Section>
  );
}

const hoursText = (ms: number) => {
  const hours = Math.round((ms / HOUR_MS) * 10) / 10;
  return hours === 1 ? 'an hour' : `${hours.toLocaleString()} hours`;
};
