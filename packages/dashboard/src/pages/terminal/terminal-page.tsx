import '@fontsource-variable/jetbrains-mono/wght.css';
import type { UserAppearanceSettings, WorkspaceAgent } from '@ropewalk/contract';
import { useLocation } from '@tanstack/react-router';
import { ALargeSmall, ArrowLeft, Plus, Search, X } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { call } from '../../api/client.ts';
import { IconButton } from '../../ui/button.tsx';
import { Checkbox } from '../../ui/checkbox.tsx';
import { cx } from '../../ui/classes.ts';
import { Link } from '../../ui/link.tsx';
import { useTitle } from '../../ui/page.tsx';
import { Popover } from '../../ui/popover.tsx';
import { Slider } from '../../ui/slider.tsx';
import { Skeleton } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { useRouteParams, useSearchParams } from '../../util/route.ts';
import { FONT_SIZES, setTerminalPreferences, useTerminalPreferences } from './preferences.ts';
import { newTerminalId, startTabs, storeTabs, type TerminalTab } from './tabs.ts';
import { TerminalView } from './terminal-view.tsx';

const OWN_FONT = '"JetBrains Mono Variable"';
const FONTS: Record<UserAppearanceSettings['terminal_font'], string> = {
  '': OWN_FONT,
  // only upstream's dashboard has it
  'geist-mono': OWN_FONT,
  'jetbrains-mono': OWN_FONT,
  'fira-code': '"Fira Code"',
  'ibm-plex-mono': '"IBM Plex Mono"',
  'source-code-pro': '"Source Code Pro"',
};
/** The terminal starts without its font rather than late. */
const FONT_WAIT_MS = 1_500;

function sessionStore(): Storage | undefined {
  try {
    return sessionStorage;
  } catch {
    return undefined;
  }
}

/** The font of the person's settings, once it is loaded: the terminal measures it. */
function useTerminalFont(): string | undefined {
  const [font, setFont] = useState<string>();
  useEffect(() => {
    let current = true;
    const load = async () => {
      // signed out, the terminal says so itself
      const settings = await call('GET /users/{user}/appearance', { params: { user: 'me' } }).catch(() => undefined);
      const chosen = FONTS[settings?.terminal_font ?? ''] ?? OWN_FONT;
      const family = chosen === OWN_FONT ? OWN_FONT : `${chosen}, ${OWN_FONT}`;
      await document.fonts.load(`14px ${OWN_FONT}`).catch(() => []);
      if (current) setFont(`${family}, ui-monospace, monospace`);
    };
    const late = setTimeout(() => current && setFont((old) => old ?? 'ui-monospace, monospace'), FONT_WAIT_MS);
    void load().finally(() => clearTimeout(late));
    return () => {
      current = false;
      clearTimeout(late);
    };
  }, []);
  return font;
}

/** Terminals in a workspace, one per tab. The address has the id of the visible one. */
export default function TerminalPage() {
  const { owner, workspace: place } = useRouteParams<'owner' | 'workspace'>();
  const [workspace = '', agent = ''] = place.split('.');
  const { pathname } = useLocation();
  const [search, setSearch] = useSearchParams();
  const [tabs, setTabs] = useState(() => startTabs(pathname, search, sessionStore()));
  const [active, setActive] = useState(() => tabs.find(({ id }) => id === search.reconnect)?.id ?? tabs[0]!.id);
  const [searching, setSearching] = useState(false);
  const [found, setFound] = useState<WorkspaceAgent>();
  const font = useTerminalFont();
  useTitle(`${workspace}${found ? `.${found.name}` : ''}`, 'Terminal');
  useEffect(() => storeTabs(pathname, tabs, sessionStore()), [pathname, tabs]);
  const show = useRef(setSearch);
  show.current = setSearch;
  useEffect(() => show.current({ reconnect: active }), [active]);
  const add = () => {
    const tab: TerminalTab = { id: newTerminalId(), command: '', app: '' };
    setTabs([...tabs, tab]);
    setActive(tab.id);
  };
  const close = (id: string) => {
    const at = tabs.findIndex((tab) => tab.id === id);
    const rest = tabs.filter((tab) => tab.id !== id);
    setTabs(rest);
    if (id === active) setActive(rest[Math.max(0, at - 1)]!.id);
  };
  const names = { owner_name: owner, name: workspace };
  return (
    <main className="flex h-dvh flex-col bg-surface">
      <h1 className="sr-only">
        Terminal of {owner}/{workspace}
      </h1>
      <header className="flex items-center gap-1 border-line border-b bg-page px-2 py-1.5">
        <Link
          to={paths.workspace(names)}
          plain
          className="mr-2 flex min-w-0 shrink items-center gap-1.5 rounded-md px-2 py-1 hover:bg-hover"
        >
          <ArrowLeft size={15} aria-hidden="true" className="shrink-0 text-muted" />
          <span className="min-w-0 truncate">
            <span className="text-muted">{owner}/</span>
            <span className="font-medium">{workspace}</span>
            {found && <span className="text-muted">.{found.name}</span>}
          </span>
        </Link>
        <div role="tablist" aria-label="Terminals" className="flex min-w-0 items-center gap-1 overflow-x-auto">
          {tabs.map((tab, at) => (
            <div
              key={tab.id}
              role="presentation"
              className={cx(
                'flex h-7 shrink-0 items-center rounded-md',
                tab.id === active ? 'bg-active' : 'hover:bg-hover',
              )}
            >
              <button
                type="button"
                role="tab"
                aria-selected={tab.id === active}
                className={cx('h-7 rounded-md px-2.5 text-sm', tab.id !== active && 'text-muted')}
                onClick={() => setActive(tab.id)}
              >
                {tab.app || (tabs.length > 1 ? `Shell ${at + 1}` : 'Shell')}
              </button>
              {tabs.length > 1 && (
                <button
                  type="button"
                  aria-label={`Close terminal ${at + 1}`}
                  className="mr-1 flex size-6 items-center justify-center rounded-sm text-muted hover:bg-hover hover:text-text"
                  onClick={() => close(tab.id)}
                >
                  <X size={13} aria-hidden="true" />
                </button>
              )}
            </div>
          ))}
        </div>
        <IconButton icon={Plus} size="sm" label="New terminal" onClick={add} />
        <div className="flex-1" />
        <IconButton
          icon={Search}
          size="sm"
          label="Search"
          aria-pressed={searching}
          onClick={() => setSearching(!searching)}
        />
        <Popover trigger={<IconButton icon={ALargeSmall} size="sm" label="Text settings" />}>
          <TextSettings />
        </Popover>
      </header>
      {font === undefined ? (
        <div className="p-3">
          <Skeleton className="w-40" />
        </div>
      ) : (
        tabs.map((tab) => (
          <TerminalView
            key={tab.id}
            tab={tab}
            place={{
              owner,
              workspace,
              agent,
              noWait: search.no_wait !== undefined,
              container: search.container ?? '',
              containerUser: search.container_user ?? '',
            }}
            active={tab.id === active}
            fontFamily={font}
            searching={searching}
            onSearching={setSearching}
            onAgent={setFound}
          />
        ))
      )}
    </main>
  );
}

function TextSettings() {
  const { fontSize, screenReader } = useTerminalPreferences();
  return (
    <div className="flex flex-col gap-4">
      <div className="flex items-center gap-3">
        <label htmlFor="font-size" className="flex-1">
          Font size
        </label>
        <Slider
          id="font-size"
          min={FONT_SIZES.least}
          max={FONT_SIZES.most}
          value={fontSize}
          onChange={(event) => setTerminalPreferences({ fontSize: Number(event.target.value) })}
        />
        <span className="w-8 text-right tabular-nums">{fontSize}</span>
      </div>
      <Checkbox
        checked={screenReader}
        onChange={(next) => setTerminalPreferences({ screenReader: next })}
        label="Support screen readers"
        help="Describes the screen as it changes. Much output becomes slower."
      />
      <p className="text-muted text-sm">
        <Link to={paths.settings('appearance')}>Your settings</Link> have the font. Ctrl+Shift+C copies, Ctrl+Shift+F
        searches.
      </p>
    </div>
  );
}
