import type { RouteAnswer } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { type LucideIcon, Monitor, Moon, Rows3, Rows4, Sun } from 'lucide-react';
import { RadioGroup } from 'radix-ui';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { apiQuery, queryClient, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { cx } from '../../ui/classes.ts';
import { Field } from '../../ui/field.tsx';
import { Section } from '../../ui/page.tsx';
import { Select } from '../../ui/select.tsx';
import { QueryView } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';
import { type Density, density, setDensity, setTheme, type Theme, theme } from '../../util/theme.ts';

const appearanceSettings = apiQuery('GET /users/{user}/appearance', [], { params: { user: 'me' } });
type Settings = RouteAnswer<'GET /users/{user}/appearance'>;
type Font = Settings['terminal_font'];

const THEMES = [
  { value: 'auto', name: 'System', icon: Monitor },
  { value: 'light', name: 'Light', icon: Sun },
  { value: 'dark', name: 'Dark', icon: Moon },
] as const;

const DENSITIES = [
  { value: 'comfortable', name: 'Comfortable', icon: Rows3 },
  { value: 'compact', name: 'Compact', icon: Rows4 },
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
  const save = useChange(
    async (change: Partial<Settings>) => {
      const saved = await queryClient.fetchQuery(appearanceSettings);
      return call('PUT /users/{user}/appearance', { params: { user: 'me' }, body: { ...saved, ...change } });
    },
    {
      refetch: ['GET /users/{user}/appearance', 'GET /users/{user}'],
      onSuccess: () => toast({ title: 'Saved.' }),
    },
  );
  const [chosen, setChosen] = useState(theme());
  const [spaced, setSpaced] = useState(density());
  return (
    <SidebarPage title="Appearance" area="Settings" narrow>
      <Section title="Theme" description="Of your account, in every browser.">
        <Choices
          label="Theme"
          choices={THEMES}
          value={chosen}
          onChange={(value: Theme) => {
            setChosen(value);
            setTheme(value);
            save.mutate({ theme_preference: value, theme_mode: value === 'auto' ? '' : 'single' });
          }}
        />
      </Section>
      <Section title="Density" description="Of tables and lists, for this browser.">
        <Choices
          label="Density"
          choices={DENSITIES}
          value={spaced}
          onChange={(value: Density) => {
            setSpaced(value);
            setDensity(value);
          }}
        />
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
                onChange={(value) => save.mutate({ terminal_font: value === DEFAULT_FONT ? '' : (value as Font) })}
              />
            </Field>
          )}
        </QueryView>
      </Section>
    </SidebarPage>
  );
}

/** A choice between a few things, each with a picture. */
function Choices<Value extends string>({
  label,
  choices,
  value,
  onChange,
}: {
  label: string;
  choices: readonly { value: Value; name: string; icon: LucideIcon }[];
  value: Value;
  onChange: (value: Value) => void;
}) {
  return (
    <RadioGroup.Root
      aria-label={label}
      value={value}
      onValueChange={(chosen) => onChange(chosen as Value)}
      className="grid grid-cols-3 gap-3"
    >
      {choices.map(({ value: one, name, icon: Icon }) => (
        <RadioGroup.Item
          key={one}
          value={one}
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
  );
}
