import type { Template } from '@platform/contract';
import { useState } from 'react';
import { fieldError } from '../../../api/errors.ts';
import { Button } from '../../../ui/button.tsx';
import { Checkbox } from '../../../ui/checkbox.tsx';
import { Field, Input } from '../../../ui/field.tsx';
import { Form } from '../../../ui/form.tsx';
import { Section } from '../../../ui/page.tsx';
import { paths } from '../../../util/paths.ts';
import { formatDuration } from '../../../util/time.ts';
import { useTemplate } from '../data.ts';
import { SettingsLayout } from './settings-layout.tsx';
import { useSave } from './use-save.ts';

const HOUR_MS = 3_600_000;
const FIELDS = ['default_ttl_ms', 'activity_bump_ms'] as const;

export default function ScheduleSettings() {
  const template = useTemplate();
  return (
    <SettingsLayout template={template} title="Schedule">
      <Schedule key={template.id} template={template} />
    </SettingsLayout>
  );
}

function Schedule({ template }: { template: Template }) {
  const [ttl, setTtl] = useState(String(template.default_ttl_ms / HOUR_MS));
  const [bump, setBump] = useState(String(template.activity_bump_ms / HOUR_MS));
  const [autostart, setAutostart] = useState(template.allow_user_autostart);
  const [autostop, setAutostop] = useState(template.allow_user_autostop);
  const save = useSave(template, paths.templateSchedule);
  const next = {
    default_ttl_ms: milliseconds(ttl),
    activity_bump_ms: milliseconds(bump),
    allow_user_autostart: autostart,
    allow_user_autostop: autostop,
  };
  const valid = Number.isFinite(next.default_ttl_ms) && Number.isFinite(next.activity_bump_ms);
  const changed = (Object.keys(next) as (keyof typeof next)[]).some((name) => next[name] !== template[name]);
  return (
    <Section title="Schedule">
      <Form
        onSubmit={() => save.mutate(next)}
        error={save.error}
        fields={FIELDS}
        actions={
          <Button type="submit" look="primary" pending={save.isPending} disabled={!changed || !valid}>
            Save
          </Button>
        }
      >
        <Hours
          label="Time until autostop, in hours"
          none="New workspaces have no time of autostop."
          some={(time) => `New workspaces have a time of autostop ${time} after their start.`}
          value={ttl}
          onChange={setTtl}
          error={fieldError(save.error, 'default_ttl_ms')}
        />
        <Hours
          label="Extension by activity, in hours"
          none="Activity does not move the time of autostop."
          some={(time) => `While somebody uses a workspace, its time of autostop is at least ${time} away.`}
          value={bump}
          onChange={setBump}
          error={fieldError(save.error, 'activity_bump_ms')}
        />
        <Checkbox
          checked={autostart}
          onChange={setAutostart}
          label="People may set an autostart"
          help="Without it, nobody can give a workspace of this template times at which it starts."
        />
        <Checkbox
          checked={autostop}
          onChange={setAutostop}
          label="People may set their own autostop"
          help="Without it, all workspaces have the time above."
        />
      </Form>
    </Section>
  );
}

/** NaN for anything but a number from 0. */
function milliseconds(hours: string): number {
  const value = hours.trim() === '' ? 0 : Number(hours);
  return value >= 0 ? Math.round(value * HOUR_MS) : Number.NaN;
}

function Hours({
  label,
  none,
  some,
  value,
  onChange,
  error,
}: {
  label: string;
  none: string;
  some: (time: string) => string;
  value: string;
  onChange: (value: string) => void;
  error: string | undefined;
}) {
  const ms = milliseconds(value);
  const wrong = Number.isFinite(ms) ? undefined : 'Enter a number of hours, 0 or more.';
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
