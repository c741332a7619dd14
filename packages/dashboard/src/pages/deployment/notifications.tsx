import { ownValue } from '@ropewalk/kit/own-value';
import { useQuery } from '@tanstack/react-query';
import { Send } from 'lucide-react';
import { call } from '../../api/client.ts';
import { useSitePermissions } from '../../api/permissions.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button } from '../../ui/button.tsx';
import { Switch } from '../../ui/choice.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Section } from '../../ui/page.tsx';
import { Select } from '../../ui/select.tsx';
import { QueryView, SkeletonLines } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';
import { methodName, useMethods } from '../notifications/methods.ts';
import { MissingMethod } from '../notifications/missing-method.tsx';
import { TEMPLATE_NOTES } from '../notifications/notes.ts';
import { OptionList } from './option-list.tsx';
import { pageOf } from './options.ts';
import { configQuery } from './queries.ts';

const DEFAULT = 'default';
const WATCHES = [{ kind: 'deployment' }] as const;

/** The methods to choose from: those that send messages elsewhere, the inbox alone, and the present one of a template. */
const offered = (available: readonly string[], method: string): string[] => [
  ...new Set([...available, 'inbox', ...(method ? [method] : [])]),
];

/** How notifications reach people: methods of templates, a pause, a test, and the options in force. */
export default function DeploymentNotificationsPage() {
  const { updateDeploymentConfig: mayChange = false } = useSitePermissions();
  const templates = useQuery(apiQuery('GET /notifications/templates/system', WATCHES));
  const methods = useMethods();
  const settings = useQuery(apiQuery('GET /notifications/settings', WATCHES));
  const config = useQuery(configQuery);
  const test = useChange(() => call('POST /notifications/test'), {
    onSuccess: () => toast({ title: 'A test notification is on its way to you.' }),
  });
  const pause = useChange(
    (notifier_paused: boolean) => call('PUT /notifications/settings', { body: { notifier_paused } }),
    { refetch: ['GET /notifications/settings'] },
  );
  const choose = useChange(
    ({ id, method }: { id: string; method: string }) =>
      call('PUT /notifications/templates/{notification_template}/method', {
        params: { notification_template: id },
        body: { method: method === DEFAULT ? '' : method },
      }),
    { refetch: ['GET /notifications/templates/system'] },
  );
  const paused = (pause.isPending ? pause.variables : settings.data?.notifier_paused) ?? false;
  const missing = methods.missing('');
  return (
    <SidebarPage
      title="Notifications"
      area="Deployment"
      description="How messages reach people."
      actions={
        mayChange && (
          <Button icon={Send} pending={test.isPending} onClick={() => test.mutate()}>
            Send a test to yourself
          </Button>
        )
      }
    >
      {missing && (
        <Notice tone="warn" title={`${methodName(missing)} is not configured`}>
          {missing === 'smtp'
            ? 'Set --email-smarthost and --email-from. Until then, people get notifications in their inbox only.'
            : 'Set --notifications-webhook-endpoint. Until then, people get notifications in their inbox only.'}
        </Notice>
      )}
      <Section>
        <div className="flex items-center gap-4">
          <div className="min-w-0 flex-1">
            <h2 className="font-semibold">Pause notifications</h2>
            <p className="text-muted text-sm">
              {paused
                ? 'New notifications wait. They are sent when you resume.'
                : 'For example while the mail server is down. Nothing is lost: they are sent when you resume.'}
            </p>
          </div>
          <Switch
            label="Pause notifications"
            checked={paused}
            disabled={!mayChange || !settings.data}
            onChange={(next) => pause.mutate(next)}
          />
        </div>
      </Section>
      <QueryView query={templates} loading={<SkeletonLines lines={12} />}>
        {(all) =>
          [...Map.groupBy(all, ({ group }) => group)].map(([group, list]) => (
            <Section key={group} flush title={group}>
              <ul>
                {list.map((template) => (
                  <li
                    key={template.id}
                    className="flex flex-wrap items-center gap-x-4 gap-y-2 border-line border-b px-4 py-3 last:border-b-0"
                  >
                    <div className="min-w-52 flex-1">
                      <div className="font-medium">{template.name}</div>
                      <div className="text-muted text-sm">{ownValue(TEMPLATE_NOTES, template.id)}</div>
                      <MissingMethod method={methods.missing(template.method)} />
                    </div>
                    <div className="w-full sm:w-56">
                      <Select
                        label={`Method of ${template.name}`}
                        disabled={!mayChange}
                        value={template.method || DEFAULT}
                        onChange={(method) => choose.mutate({ id: template.id, method })}
                        options={[
                          { value: DEFAULT, label: `Default (${methodName(methods.usual)})` },
                          ...offered(methods.available, template.method).map((value) => ({
                            value,
                            label:
                              value === 'inbox' || methods.configured.includes(value)
                                ? methodName(value)
                                : `${methodName(value)} (not configured)`,
                          })),
                        ]}
                      />
                    </div>
                  </li>
                ))}
              </ul>
            </Section>
          ))
        }
      </QueryView>
      <QueryView query={config}>
        {({ options }) => (
          <OptionList options={options.filter((each) => !each.hidden && pageOf(each) === 'notifications')} />
        )}
      </QueryView>
    </SidebarPage>
  );
}
