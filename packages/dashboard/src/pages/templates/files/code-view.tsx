import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab, temporarilySetTabFocusMode } from '@codemirror/commands';
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, indentUnit } from '@codemirror/language';
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { EditorState, type Extension } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import { useEffect, useLayoutEffect, useRef } from 'react';
import type { Problem } from '../build/problems.ts';
import { highlighting, languageOf } from './language.ts';

/** A place to show. Another object with the same line shows it again. */
export interface Place {
  line: number;
}

const theme = EditorView.theme({
  '&': { height: '100%', backgroundColor: 'var(--surface)', color: 'var(--text-1)', fontSize: 'var(--text-sm)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--font-mono)', lineHeight: '1.6', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--text-1)', padding: '8px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text-1)' },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--text-3)', border: 'none', paddingLeft: '4px' },
  '.cm-lineNumbers .cm-gutterElement': { minWidth: '2.5rem' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--hover)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'color-mix(in oklab, var(--accent) 28%, transparent)',
  },
  '.cm-selectionMatch, .cm-searchMatch': { backgroundColor: 'var(--warn-soft)' },
  '.cm-searchMatch-selected': { outline: '1px solid var(--warn)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--active)', outline: '1px solid var(--line-strong)' },
  '.cm-foldPlaceholder': { backgroundColor: 'var(--sunken)', color: 'var(--text-2)', border: 'none' },
  '.cm-panels': { backgroundColor: 'var(--raised)', color: 'var(--text-1)', borderColor: 'var(--line)' },
  '.cm-panel input, .cm-panel button': {
    backgroundColor: 'var(--surface)',
    backgroundImage: 'none',
    color: 'var(--text-1)',
    border: '1px solid var(--field)',
    borderRadius: 'var(--radius-sm)',
    fontFamily: 'var(--font-sans)',
    fontSize: 'var(--text-sm)',
  },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    color: 'var(--text-1)',
    border: '1px solid var(--line)',
    borderRadius: 'var(--radius-md)',
    fontFamily: 'var(--font-sans)',
    overflow: 'hidden',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-diagnostic': { padding: '6px 10px', borderLeftWidth: '3px', whiteSpace: 'pre-wrap', maxWidth: '36rem' },
  '.cm-diagnostic-error': { borderLeftColor: 'var(--bad)' },
  '.cm-diagnostic-warning': { borderLeftColor: 'var(--warn)' },
  '.cm-lintRange-error': {
    backgroundImage: 'none',
    textDecoration: 'underline wavy var(--bad)',
    textUnderlineOffset: '3px',
  },
  '.cm-lintRange-warning': {
    backgroundImage: 'none',
    textDecoration: 'underline wavy var(--warn)',
    textUnderlineOffset: '3px',
  },
});

function diagnosticsOf(state: EditorState, problems: readonly Problem[]): Diagnostic[] {
  return problems.flatMap(({ line, severity, summary, detail }) => {
    if (line === undefined || line < 1 || line > state.doc.lines) return [];
    const { from, to, text } = state.doc.line(line);
    return [
      {
        from: from + (text.length - text.trimStart().length),
        to,
        severity,
        message: detail ? `${summary}\n${detail}` : summary,
      },
    ];
  });
}

/**
 * The text of one file, to read or to edit. Each file keeps its undo history while the component lives: `path` selects
 * the file, and `text` is read when it is first shown or when it differs from the typed text.
 */
export default function CodeView({
  path,
  text,
  problems = [],
  place,
  onChange,
  onSave,
}: {
  path: string;
  text: string;
  problems?: readonly Problem[];
  place?: Place | undefined;
  /** Without it the text is read-only. */
  onChange?: (text: string) => void;
  onSave?: () => void;
}) {
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const states = useRef(new Map<string, EditorState>());
  const shown = useRef('');
  const latest = useRef({ onChange, onSave });
  latest.current = { onChange, onSave };
  const editable = onChange !== undefined;

  // before the effect below, which fills it
  useLayoutEffect(() => {
    const created = new EditorView({ parent: parent.current!, extensions: theme });
    view.current = created;
    // the font may load later, and its lines have another height
    void document.fonts.ready.then(() => created.requestMeasure());
    return () => {
      created.destroy();
      view.current = undefined;
      shown.current = '';
    };
  }, []);

  useLayoutEffect(() => {
    const current = view.current;
    if (!current) return;
    if (shown.current && shown.current !== path) states.current.set(shown.current, current.state);
    if (shown.current === path && current.state.doc.toString() === text) return;
    const kept = shown.current === path ? undefined : states.current.get(path);
    shown.current = path;
    current.setState(kept?.doc.toString() === text ? kept : newState(path, text, editable, latest));
  });

  useEffect(() => {
    const current = view.current;
    if (current && path) current.dispatch(setDiagnostics(current.state, diagnosticsOf(current.state, problems)));
  }, [path, problems]);

  useEffect(() => {
    const current = view.current;
    if (!current || !place || !path) return;
    const { from } = current.state.doc.line(Math.min(Math.max(place.line, 1), current.state.doc.lines));
    current.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: 'center' }) });
    current.focus();
  }, [place, path]);

  return <div ref={parent} className="h-full min-h-0 min-w-0" />;
}

type Handlers = { current: { onChange: ((text: string) => void) | undefined; onSave: (() => void) | undefined } };

function newState(path: string, text: string, editable: boolean, handlers: Handlers): EditorState {
  const shared: Extension[] = [
    lineNumbers(),
    foldGutter(),
    search({ top: true }),
    highlightSelectionMatches(),
    highlighting,
    languageOf(path, text),
    lintGutter(),
    theme,
    EditorView.contentAttributes.of({ 'aria-label': path, tabindex: '0' }),
  ];
  if (!editable) {
    return EditorState.create({
      doc: text,
      extensions: [
        ...shared,
        EditorState.readOnly.of(true),
        keymap.of([...defaultKeymap, ...searchKeymap, ...foldKeymap, ...lintKeymap]),
      ],
    });
  }
  return EditorState.create({
    doc: text,
    extensions: [
      ...shared,
      history(),
      drawSelection(),
      indentOnInput(),
      indentUnit.of('  '),
      bracketMatching(),
      closeBrackets(),
      autocompletion(),
      highlightActiveLine(),
      highlightActiveLineGutter(),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) handlers.current.onChange?.(update.state.doc.toString());
      }),
      keymap.of([
        {
          key: 'Mod-s',
          preventDefault: true,
          run: () => {
            handlers.current.onSave?.();
            return true;
          },
        },
        ...closeBracketsKeymap,
        ...defaultKeymap,
        ...searchKeymap,
        ...historyKeymap,
        ...foldKeymap,
        ...completionKeymap,
        ...lintKeymap,
        indentWithTab,
        // Tab indents. After Escape it moves the focus, for people without a mouse.
        { key: 'Escape', run: temporarilySetTabFocusMode },
      ]),
    ],
  });
}
