import '@xterm/xterm/css/xterm.css';
import type { WorkspaceAgent } from '@ropewalk/contract';
import { FitAddon } from '@xterm/addon-fit';
import { SearchAddon } from '@xterm/addon-search';
import { Unicode11Addon } from '@xterm/addon-unicode11';
import { WebLinksAddon } from '@xterm/addon-web-links';
import { WebglAddon } from '@xterm/addon-webgl';
import { type ITheme, Terminal } from '@xterm/xterm';
import { ChevronDown, ChevronUp, CircleAlert, Info, X } from 'lucide-react';
import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { Button, IconButton } from '../../ui/button.tsx';
import { cx, softTone } from '../../ui/classes.ts';
import { copyText } from '../../ui/copy.tsx';
import { Input } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { useDark } from '../../util/theme.ts';
import { useTerminalPreferences } from './preferences.ts';
import { type SessionNotice, startSession } from './session.ts';
import type { TerminalTab } from './tabs.ts';

const SCROLLBACK_LINES = 10_000;

/** The colors of the theme in force, from the design tokens. */
function currentTheme(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const [red, green, yellow, blue] = [token('bad'), token('good'), token('warn'), token('busy')];
  const [magenta, cyan] = [token('accent-text'), token('terminal-cyan')];
  return {
    background: token('surface'),
    foreground: token('text-1'),
    cursor: token('text-1'),
    cursorAccent: token('surface'),
    selectionBackground: `${token('accent')}55`,
    black: token('text-1'),
    white: token('text-2'),
    brightBlack: token('text-3'),
    brightWhite: token('text-1'),
    red,
    green,
    yellow,
    blue,
    magenta,
    cyan,
    brightRed: red,
    brightGreen: green,
    brightYellow: yellow,
    brightBlue: blue,
    brightMagenta: magenta,
    brightCyan: cyan,
  };
}

/** One terminal. Hidden ones stay connected. */
export function TerminalView({
  tab,
  place,
  active,
  fontFamily,
  searching,
  onSearching,
  onAgent,
}: {
  tab: TerminalTab;
  place: { owner: string; workspace: string; agent: string; noWait: boolean; container: string; containerUser: string };
  active: boolean;
  fontFamily: string;
  searching: boolean;
  onSearching: (open: boolean) => void;
  onAgent: (agent: WorkspaceAgent) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const parts = useRef<{ terminal: Terminal; fit: FitAddon; search: SearchAddon }>(undefined);
  const [notice, setNotice] = useState<SessionNotice>();
  const { fontSize, screenReader } = useTerminalPreferences();
  const dark = useDark();
  const latest = useRef({ onSearching, onAgent });
  latest.current = { onSearching, onAgent };

  // biome-ignore lint/correctness/useExhaustiveDependencies: the settings of a living terminal change below
  useEffect(() => {
    const terminal = new Terminal({
      allowProposedApi: true,
      scrollback: SCROLLBACK_LINES,
      fontFamily,
      fontSize,
      // below 1.2 some fonts lose their underscores
      lineHeight: 1.2,
      theme: currentTheme(),
      minimumContrastRatio: 4.5,
      screenReaderMode: screenReader,
    });
    const fit = new FitAddon();
    const search = new SearchAddon();
    terminal.loadAddon(fit);
    terminal.loadAddon(search);
    terminal.loadAddon(new Unicode11Addon());
    terminal.unicode.activeVersion = '11';
    terminal.loadAddon(new WebLinksAddon((_event, address) => window.open(address, '_blank', 'noopener,noreferrer')));
    terminal.open(box.current!);
    drawWithWebgl(terminal);
    fit.fit();
    parts.current = { terminal, fit, search };
    terminal.attachCustomKeyEventHandler((event) => {
      if (event.type !== 'keydown' || !event.shiftKey || !(event.ctrlKey || event.metaKey)) return true;
      if (event.code === 'KeyC' && terminal.hasSelection()) {
        event.preventDefault();
        void copyText(terminal.getSelection());
        return false;
      }
      if (event.code === 'KeyF') {
        event.preventDefault();
        latest.current.onSearching(true);
        return false;
      }
      return true;
    });
    const session = startSession({
      ...place,
      tab,
      terminal: {
        size: () => ({ cols: terminal.cols, rows: terminal.rows }),
        write: (data) => terminal.write(data),
        reset: () => terminal.reset(),
        focus: () => terminal.focus(),
        enter: () =>
          new Promise((resolve) => {
            const listener = terminal.onKey(({ key }) => {
              if (key !== '\r') return;
              listener.dispose();
              resolve();
            });
          }),
      },
      onNotice: setNotice,
      onAgent: (agent) => latest.current.onAgent(agent),
    });
    terminal.onData((data) => session.send(data));
    // the oldest form of mouse reports has bytes, not characters
    terminal.onBinary((data) => session.send(data));
    terminal.onResize(({ cols, rows }) => session.resize(cols, rows));
    const observer = new ResizeObserver(() => {
      // a hidden tab has no size
      if (box.current?.offsetParent) fit.fit();
    });
    observer.observe(box.current!);
    return () => {
      observer.disconnect();
      session.end();
      terminal.dispose();
      parts.current = undefined;
    };
  }, [tab.id]);

  useEffect(() => {
    const { terminal, fit } = parts.current!;
    terminal.options.fontFamily = fontFamily;
    terminal.options.fontSize = fontSize;
    terminal.options.screenReaderMode = screenReader;
    if (active) fit.fit();
  }, [fontFamily, fontSize, screenReader, active]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the tokens change with the theme
  useEffect(() => {
    parts.current!.terminal.options.theme = currentTheme();
  }, [dark]);

  useEffect(() => {
    if (active && !searching) parts.current!.terminal.focus();
  }, [active, searching]);

  return (
    <div
      role="tabpanel"
      aria-label="Terminal"
      hidden={!active}
      className={cx('min-h-0 flex-1 flex-col', active && 'flex')}
    >
      <NoticeBar notice={notice} />
      {searching && active && <SearchBar search={() => parts.current!.search} onClose={() => onSearching(false)} />}
      <div className="min-h-0 flex-1 p-2">
        <div ref={box} className="h-full overflow-hidden" />
      </div>
    </div>
  );
}

/** Draws with the graphics card where there is one. */
function drawWithWebgl(terminal: Terminal): void {
  try {
    const webgl = new WebglAddon();
    // the browser may take the context away: the terminal then draws without it
    webgl.onContextLoss(() => webgl.dispose());
    terminal.loadAddon(webgl);
  } catch {
    // without WebGL, the terminal draws with elements
  }
}

function NoticeBar({ notice }: { notice: SessionNotice | undefined }) {
  const Icon = notice?.kind === 'error' ? CircleAlert : Info;
  return (
    <div role="status">
      {notice && (
        <div
          data-kind={notice.kind}
          className={cx(
            'flex flex-wrap items-center gap-x-3 gap-y-2 px-4 py-2',
            softTone[notice.kind === 'error' ? 'bad' : 'warn'],
          )}
        >
          <Icon size={16} aria-hidden="true" className="shrink-0" />
          <span>{notice.text}</span>
          {notice.command !== undefined && (
            <code className="whitespace-pre-wrap break-all rounded-sm bg-surface px-2 py-0.5 font-mono text-sm text-text">
              {notice.command}
            </code>
          )}
          {notice.link &&
            // signing in needs a separate page
            (notice.link.leaves ? (
              <a href={notice.link.to} className="font-medium underline">
                {notice.link.text}
              </a>
            ) : (
              <Link to={notice.link.to} plain className="font-medium underline">
                {notice.link.text}
              </Link>
            ))}
          {notice.action && (
            <Button size="sm" autoFocus onClick={notice.action.run}>
              {notice.action.text}
            </Button>
          )}
        </div>
      )}
    </div>
  );
}

function SearchBar({ search, onClose }: { search: () => SearchAddon; onClose: () => void }) {
  const [text, setText] = useState('');
  const [found, setFound] = useState(true);
  const find = (next: boolean, value = text) => {
    if (value === '') search().clearDecorations();
    setFound(value === '' || (next ? search().findNext(value) : search().findPrevious(value)));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter') find(event.shiftKey);
    if (event.key === 'Escape') onClose();
  };
  return (
    <search className="flex items-center gap-1 border-line border-b bg-page px-3 py-1.5">
      <Input
        autoFocus
        aria-label="Search in the terminal"
        placeholder="Search"
        value={text}
        className="max-w-72"
        onChange={(event) => {
          setText(event.target.value);
          find(false, event.target.value);
        }}
        onKeyDown={onKeyDown}
      />
      <IconButton icon={ChevronUp} size="sm" label="Previous match" onClick={() => find(false)} />
      <IconButton icon={ChevronDown} size="sm" label="Next match" onClick={() => find(true)} />
      <span aria-live="polite" className="text-muted text-sm">
        {!found && 'No match'}
      </span>
      <div className="flex-1" />
      <IconButton icon={X} size="sm" label="Close the search" onClick={onClose} />
    </search>
  );
}
