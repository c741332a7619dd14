import type { UserQuietHoursScheduleResponse } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button } from '../../ui/button.tsx';
import { Field, Input, NativeSelect } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { SaveButtons } from '../../ui/save.tsx';
import { QueryView } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';
import { formatDateTime } from '../../util/time.ts';

const quietHours = apiQuery('GET /users/{user}/quiet-hours', [], { params: { user: 'me' } });
const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export default function SchedulePage() {
  const schedule = useQuery(quietHours);
  return (
    <SidebarPage
      title="Schedule"
      area="Settings"
      description="Workspaces that must restart for maintenance do so in your quiet hours."
      narrow
    >
      <QueryView query={schedule}>{(data) => <QuietHours schedule={data} />}</QueryView>
    </SidebarPage>
  );
}

function QuietHours({ schedule }: { schedule: UserQuietHoursScheduleResponse }) {
  const [time, setTime] = useState(schedule.time);
  const [zone, setZone] = useState(schedule.user_set ? schedule.timezone : ownZone);
  const save = useChange(
    (raw: string) => call('PUT /users/{user}/quiet-hours', { params: { user: 'me' }, body: { schedule: raw } }),
    {
      ownError: true,
      refetch: ['GET /users/{user}/quiet-hours'],
      onSuccess: () => toast({ title: 'Your quiet hours were changed.' }),
    },
  );
  const zones = [...new Set([ownZone, schedule.timezone, 'UTC', ...Intl.supportedValuesOf('timeZone')])];
  return (
    <Section title="Quiet hours">
      <Facts
        facts={[
          ['Start', `${schedule.time} (${schedule.timezone})${schedule.user_set ? '' : ', the default'}`],
          ['Next', formatDateTime(schedule.next)],
        ]}
      />
      {schedule.user_can_set ? (
        <Form
          onSubmit={() => {
            const [hour, minute] = time.split(':').map(Number);
            save.mutate(`CRON_TZ=${zone} ${minute} ${hour} * * *`);
          }}
          error={save.error}
          fields={['schedule']}
          actions={
            <>
              <SaveButtons
                changed={time !== schedule.time || zone !== schedule.timezone}
                problem={/^\d\d:\d\d$/.test(time) ? undefined : 'Enter a time.'}
                pending={save.isPending && save.variables !== ''}
                onDiscard={() => {
                  setTime(schedule.time);
                  setZone(schedule.timezone);
                }}
              />
              {schedule.user_set && (
                <Button disabled={save.isPending} onClick={() => save.mutate('')}>
                  Use the default
                </Button>
              )}
            </>
          }
        >
          <div className="grid gap-4 sm:grid-cols-[8rem_1fr]">
            <Field label="Start" error={fieldError(save.error, 'schedule')}>
              <Input type="time" value={time} onChange={(event) => setTime(event.target.value)} />
            </Field>
            <Field label="Time zone">
              <NativeSelect value={zone} onChange={(event) => setZone(event.target.value)}>
                {zones.map((each) => (
                  <option key={each} value={each}>
                    {each.replaceAll('_', ' ')}
                  </option>
                ))}
              </NativeSelect>
            </Field>
          </div>
        </Form>
      ) : (
        <Notice title="Administrators set the quiet hours of this server." />
      )}
    </Section>
  );
}
