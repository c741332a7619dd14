import type { NotificationTemplate } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
import { useQuery } from '@tanstack/react-query';
import { call } from '../../api/client.ts';
import { useMe } from '../../api/me.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Switch } from '../../ui/choice.tsx';
import { Section } from '../../ui/page.tsx';
import { QueryView, SkeletonLines } from '../../ui/states.tsx';
import { useMethods } from '../notifications/methods.ts';
import { MissingMethod } from '../notifications/missing-method.tsx';
import { TEMPLATE_NOTES } from '../notifications/notes.ts';
import { BrowserPush } from './push.tsx';

/** The person's choice of notifications. */
export default function NotificationSettingsPage() {
  const me = useMe();
  const templates = useQuery(apiQuery('GET /notifications/templates/system', []));
  const params = { user: me.id };
  const preferences = useQuery(apiQuery('GET /users/{user}/notifications/preferences', [{ kind: 'user' }], { params }));
  const change = useChange(
    (map: Record<string, boolean>) =>
      call('PUT /users/{user}/notifications/preferences', { params, body: { template_disabled_map: map } }),
    { refetch: ['GET /users/{user}/notifications/preferences'] },
  );
  const methods = useMethods();
  const isOn = (template: NotificationTemplate): boolean => {
    const waiting = change.isPending ? change.variables?.[template.id] : undefined;
    const own = preferences.data?.find(({ id }) => id === template.id);
    return !(waiting ?? own?.disabled ?? !template.enabled_by_default);
  };
  return (
    <SidebarPage
      title="Notifications"
      area="Settings"
      description="Choose which notifications you receive. Changes apply immediately."
    >
      <BrowserPush />
      <QueryView query={templates} loading={<SkeletonLines lines={12} />}>
        {(all) => (
          <QueryView query={preferences} loading={<SkeletonLines lines={12} />}>
            {() =>
              [...Map.groupBy(all, ({ group }) => group)].map(([group, list]) => {
                const on = list.some(isOn);
                return (
                  <Section
                    key={group}
                    flush
                    title={group}
                    actions={
                      <Switch
                        label={`All ${group.toLowerCase()}`}
                        checked={on}
                        onChange={() => change.mutate(Object.fromEntries(list.map(({ id }) => [id, on])))}
                      />
                    }
                  >
                    <ul>
                      {list.map((template) => (
                        <li
                          key={template.id}
                          className="flex items-center gap-4 border-line border-b px-4 py-3 last:border-b-0"
                        >
                          <div className="min-w-0 flex-1">
                            <div className="font-medium">{template.name}</div>
                            <div className="text-muted text-sm">{ownValue(TEMPLATE_NOTES, template.id)}</div>
                            <MissingMethod method={methods.missing(template.method)} />
                          </div>
                          <Switch
                            label={template.name}
                            checked={isOn(template)}
                            onChange={(next) => change.mutate({ [template.id]: !next })}
                          />
                        </li>
                      ))}
                    </ul>
                  </Section>
                );
              })
            }
          </QueryView>
        )}
      </QueryView>
    </SidebarPage>
  );
}
