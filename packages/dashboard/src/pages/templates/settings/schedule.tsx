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
import { useTemplate } from '../data.ts';
import { SettingsPage } from './settings-page.tsx';
import { useSave } from './use-save.ts';
import {
  DAY_MS,
  HOUR_MS,
  MAX_WEEKS,
  MINUTE_MS,
  milliseconds,
  type ScheduleDraft,
  useScheduleDraft,
} from './use-schedule-draft.ts';

const FIELDS = [
  'default_ttl_ms',
  'activity_bump_ms',
  'time_til_autostop_notify_ms',
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

interface Part {
  draft: ScheduleDraft;
  /** What the server says of a field. */
  error: (field: (typeof FIELDS)[number]) => string | undefined;
}

function Schedule({ template, onDiscard }: { template: Template; onDiscard: () => void }) {
  const draft = useScheduleDraft(template);
  const save = useSave(template, paths.templateSchedule);
  const error = (field: (typeof FIELDS)[number]) => fieldError(save.error, field);
  return (
    <Form
      onSubmit={() => save.mutate(draft.body)}
      error={save.error}
      fields={FIELDS}
      actions={
        <SaveButtons
          changed={draft.changed}
          problem={draft.valid ? undefined : 'A value is not valid.'}
          pending={save.isPending}
          onDiscard={onDiscard}
        />
      }
    >
      <Autostop draft={draft} error={error} />
      <RequiredStop draft={draft} error={error} />
      <Autostart draft={draft} />
      <FailedAndUnused draft={draft} error={error} />
    </Form>
  );
}

function Autostop({ draft, error }: Part) {
  const { entered, enter } = draft;
  return (
    <Section title="Autostop" description="When a running workspace stops by itself.">
      <Time
        label="Hours until autostop"
        unit={HOUR_MS}
        none="New workspaces run until somebody stops them."
        some={(time) => `New workspaces stop ${time} after their start.`}
        value={entered.ttlHours}
        onChange={(ttlHours) => enter({ ttlHours })}
        error={error('default_ttl_ms')}
      />
      <Time
        label="Hours that activity adds"
        unit={HOUR_MS}
        none="Activity does not postpone the stop."
        some={(time) => `While somebody uses a workspace, its stop is at least ${time} away.`}
        value={entered.bumpHours}
        onChange={(bumpHours) => enter({ bumpHours })}
        error={error('activity_bump_ms')}
      />
      <Time
        label="Minutes before a stop that its owner is reminded"
        unit={MINUTE_MS}
        none="Nobody is reminded of a stop."
        some={(time) => `Owners get a message ${time} before the stop, unless they use the workspace.`}
        value={entered.reminderMinutes}
        onChange={(reminderMinutes) => enter({ reminderMinutes })}
        error={error('time_til_autostop_notify_ms')}
      />
      <Checkbox
        checked={entered.autostop}
        onChange={(autostop) => enter({ autostop })}
        label="People may set their own autostop"
        help="Without it, all workspaces have the time above."
      />
    </Section>
  );
}

function RequiredStop({ draft, error }: Part) {
  const { entered, enter } = draft;
  return (
    <Section
      title="Required stop"
      description="Workspaces stop in the quiet hours of their owner, however much they are used, so that they get updates."
    >
      <DayPicker
        label="Days"
        days={entered.stopDays}
        onChange={(stopDays) => enter({ stopDays })}
        help={entered.stopDays.length === 0 ? 'No day is chosen: nothing requires a stop.' : undefined}
      />
      {entered.stopDays.length > 0 && (
        <Field
          label="Weeks between the stops"
          help={Number(entered.weeks) === 1 ? 'Every week.' : `Only in every ${ordinal(Number(entered.weeks))} week.`}
          error={error('autostop_requirement.weeks') ?? draft.weeksProblem}
        >
          <Input
            type="number"
            min={1}
            max={MAX_WEEKS}
            className="max-w-32"
            value={entered.weeks}
            onChange={(event) => enter({ weeks: event.target.value })}
          />
        </Field>
      )}
    </Section>
  );
}

function Autostart({ draft }: Pick<Part, 'draft'>) {
  const { entered, enter } = draft;
  return (
    <Section title="Autostart" description="When a stopped workspace starts by itself.">
      <Checkbox
        checked={entered.autostart}
        onChange={(autostart) => enter({ autostart })}
        label="People may set an autostart"
        help="Without it, no workspace of this template starts by itself."
      />
      {entered.autostart && (
        <DayPicker
          label="Days on which workspaces may start"
          days={entered.startDays}
          onChange={(startDays) => enter({ startDays })}
          error={draft.startDaysProblem}
        />
      )}
    </Section>
  );
}

function FailedAndUnused({ draft, error }: Part) {
  const { entered, enter } = draft;
  return (
    <Section title="Failed and unused workspaces">
      <Time
        label="Hours until a failed start is stopped"
        unit={HOUR_MS}
        none="A workspace whose start failed stays as it is."
        some={(time) => `A workspace whose start failed is stopped after ${time}.`}
        value={entered.failureHours}
        onChange={(failureHours) => enter({ failureHours })}
        error={error('failure_ttl_ms')}
      />
      <Time
        label="Days without use until a workspace is dormant"
        unit={DAY_MS}
        none="Unused workspaces stay as they are."
        some={(time) =>
          `After ${time} without use, a workspace is stopped. Its owner must activate it to use it again.`
        }
        value={entered.unusedDays}
        onChange={(unusedDays) => enter({ unusedDays })}
        error={error('time_til_dormant_ms')}
      />
      {draft.dormancyBegins && (
        <Checkbox
          checked={entered.useFromNow}
          onChange={(useFromNow) => enter({ useFromNow })}
          label="Count from now"
          help="Without it, workspaces that have been unused for this long become dormant immediately."
        />
      )}
      <Time
        label="Days until a dormant workspace is deleted"
        unit={DAY_MS}
        none="Dormant workspaces are kept."
        some={(time) => `${time} after it became dormant, a workspace and its data are deleted.`}
        value={entered.deletionDays}
        onChange={(deletionDays) => enter({ deletionDays })}
        error={error('time_til_dormant_autodelete_ms')}
      />
      {draft.deletionBegins && (
        <Checkbox
          checked={entered.dormantFromNow}
          onChange={(dormantFromNow) => enter({ dormantFromNow })}
          label="Count from now for dormant workspaces"
          help="Without it, workspaces that have been dormant for this long are deleted immediately."
        />
      )}
    </Section>
  );
}

const ordinal = (count: number): string =>
  `${count}${count % 100 > 10 && count % 100 < 14 ? 'th' : (['th', 'st', 'nd', 'rd'][count % 10] ?? 'th')}`;

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
