import { json } from '@codemirror/lang-json';
import { markdown } from '@codemirror/lang-markdown';
import { yaml } from '@codemirror/lang-yaml';
import { HighlightStyle, StreamLanguage, type StreamParser, syntaxHighlighting } from '@codemirror/language';
import { dockerFile } from '@codemirror/legacy-modes/mode/dockerfile';
import { powerShell } from '@codemirror/legacy-modes/mode/powershell';
import { properties } from '@codemirror/legacy-modes/mode/properties';
import { python } from '@codemirror/legacy-modes/mode/python';
import { shell } from '@codemirror/legacy-modes/mode/shell';
import { toml } from '@codemirror/legacy-modes/mode/toml';
import type { Extension } from '@codemirror/state';
import { tags } from '@lezer/highlight';
import { hcl } from 'codemirror-lang-hcl';

const stream = (parser: StreamParser<unknown>) => () => StreamLanguage.define(parser);

const BY_ENDING: [RegExp, () => Extension][] = [
  [/\.(tf|tfvars|hcl|tofu)$/i, hcl],
  [/\.(ya?ml)$/i, yaml],
  [/\.(md|markdown)$/i, () => markdown()],
  [/\.(json|tfstate)$|\.tf\.json$/i, json],
  [/(^|\/)(Dockerfile|Containerfile)(\.[^/]*)?$|\.dockerfile$/i, stream(dockerFile)],
  [/\.(sh|bash|zsh|bashrc|profile|env)$|\.(sh|bash)\.(tftpl|tpl)$/i, stream(shell)],
  [/\.ps1$/i, stream(powerShell)],
  [/\.py$/i, stream(python)],
  [/\.toml$/i, stream(toml)],
  [/\.(ini|conf|cfg|properties|service)$/i, stream(properties)],
];

/** The language of a file, by its name. Scripts without an ending name their interpreter in the first line. */
export function languageOf(path: string, text: string): Extension {
  const found = BY_ENDING.find(([ending]) => ending.test(path));
  if (found) return found[1]();
  return /^#!.*\b(ba|z|da)?sh\b/.test(text) ? stream(shell)() : [];
}

/** The colors are tokens, so that they follow the theme. */
export const highlighting = syntaxHighlighting(
  HighlightStyle.define([
    { tag: [tags.keyword, tags.controlKeyword, tags.operatorKeyword, tags.modifier], color: 'var(--accent-text)' },
    { tag: [tags.string, tags.special(tags.string), tags.regexp], color: 'var(--good)' },
    { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.literal], color: 'var(--warn)' },
    { tag: [tags.comment, tags.meta], color: 'var(--text-3)' },
    { tag: [tags.propertyName, tags.attributeName, tags.definition(tags.variableName)], color: 'var(--busy)' },
    { tag: [tags.typeName, tags.className, tags.namespace, tags.tagName], color: 'var(--accent-text)' },
    { tag: [tags.function(tags.variableName), tags.standard(tags.name), tags.labelName], color: 'var(--busy)' },
    { tag: tags.heading, fontWeight: '600' },
    { tag: tags.strong, fontWeight: '600' },
    { tag: tags.emphasis, fontStyle: 'italic' },
    { tag: [tags.link, tags.url], color: 'var(--accent-text)', textDecoration: 'underline' },
    { tag: tags.invalid, color: 'var(--bad)' },
  ]),
);
