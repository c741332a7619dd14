import type { RouteAnswer } from '@platform/contract';
import { useQuery } from '@tanstack/react-query';
import { Monitor, Moon, Sun } from 'lucide-react';
import { RadioGroup } from 'radix-ui';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { cx } from '../../ui/classes.ts';
import { Field } from '../../ui/field.tsx';
import { Section } from '../../ui/page.tsx';
import { Select } from '../../ui/select.tsx';
import { QueryView } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';
import { setTheme, type Theme, theme } from '../../util/theme.ts';

const appearanceSettings = apiQuery('GET /users/{user}/appearance', [], { params: { user: 'me' } });
type Settings = RouteAnswer<'GET /users/{user}/appearance'>;
type Font = Settings['terminal_font'];

const THEMES = [
  { value: 'auto', name: 'System', icon: Monitor },
  { value: 'light', name: 'Light', icon: Sun },
  { value: 'dark', name: 'Dark', icon: Moon },
] as const;

/** A select cannot have an empty value, which the API uses for the default. */
const DEFAULT_FONT = 'default';
const FONTS: { value: Font | typeof DEFAULT_FONT; label: string }[] = [
  { value: DEFAULT_FONT, label: 'Default' },
  { value: 'jetbrains-mono', label: 'JetBrains Mono' },
  { value: 'fira-code', label: 'Fira Code' },
  { value: 'ibm-plex-mono', label: 'IBM Plex Mono' },
  { value: 'source-code-pro', label: 'Source Code Pro' },
];

export default function AppearancePage() {
  const settings = useQuery(appearanceSettings);
  const save = useChange((body: Settings) => call('PUT /users/{user}/appearance', { params: { user: 'me' }, body }), {
    refetch: ['GET /users/{user}/appearance'],
    onSuccess: () => toast({ title: 'Saved.' }),
  });
  const [chosen, setChosen] = useState(theme());
  return (
    <SidebarPage title="Appearance" area="Settings" narrow>
      <Section title="Theme" description="For this browser. It applies at once in all tabs.">
        <RadioGroup.Root
          aria-label="Theme"
          value={chosen}
          onValueChange={(value) => {
            setChosen(value as Theme);
            setTheme(value as Theme);
          }}
          className="grid grid-cols-3 gap-3"
        >
          {THEMES.map(({ value, name, icon: Icon }) => (
            <RadioGroup.Item
              key={value}
              value={value}
              className={cx(
                'flex flex-col items-center gap-2 rounded-lg border p-4 font-medium',
                'border-line-strong text-muted hover:bg-hover data-[state=checked]:border-accent data-[state=checked]:bg-accent-soft data-[state=checked]:text-accent-text',
              )}
            >
              <Icon size={20} aria-hidden="true" />
              {name}
            </RadioGroup.Item>
          ))}
        </RadioGroup.Root>
      </Section>
      <Section title="Terminal">
        <QueryView query={settings}>
          {(data) => (
            <Field
              label="Font"
              help="JetBrains Mono comes with the dashboard. Other fonts must be installed on your computer."
            >
              <Select
                value={data.terminal_font || DEFAULT_FONT}
                options={FONTS}
                disabled={save.isPending}
                onChange={(value) =>
                  save.mutate({ ...data, terminal_font: value === DEFAULT_FONT ? '' : (value as Font) })
                }
              />
            </Field>
          )}
        </QueryView>
      </Section>
    </SidebarPage>
  );
}
