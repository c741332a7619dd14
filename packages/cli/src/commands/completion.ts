import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { AppError } from '@platform/kit/errors';
import { homeFolder } from '@platform/kit/home';
import { command } from '../framework/definition.ts';
import { print } from '../framework/io.ts';
import type { Node } from '../framework/tree.ts';

/** Every command line with subcommands, and the names that can follow it. */
function words(node: Node, path: string[] = []): [string, string[]][] {
  const children = Object.entries(node.children ?? {}).filter(([, child]) => !child.hidden);
  if (children.length === 0) return [];
  return [
    [path.join(' '), children.map(([name]) => name)],
    ...children.flatMap(([name, child]) => words(child, [...path, name])),
  ];
}

const SCRIPTS: Record<string, (root: Node) => string> = {
  bash: (root) => `_coder() {
  local path="\${COMP_WORDS[*]:1:COMP_CWORD-1}"
  case "$path" in
${words(root)
  .map(
    ([path, next]) => `    "${path}") COMPREPLY=($(compgen -W "${next.join(' ')}" -- "\${COMP_WORDS[COMP_CWORD]}")) ;;`,
  )
  .join('\n')}
  esac
}
complete -o default -F _coder coder
`,
  zsh: (root) => `#compdef coder
_coder() {
  local path="\${words[2,CURRENT-1]}"
  case "$path" in
${words(root)
  .map(([path, next]) => `    "${path}") compadd -- ${next.join(' ')} ;;`)
  .join('\n')}
    *) _files ;;
  esac
}
compdef _coder coder
`,
  fish: (root) =>
    words(root)
      .map(
        ([path, next]) =>
          `complete -c coder -f -n 'test (string join " " (commandline -opc)[2..]) = "${path}"' -a '${next.join(' ')}'`,
      )
      .join('\n')
      .concat('\n'),
  powershell: (root) => `Register-ArgumentCompleter -Native -CommandName coder -ScriptBlock {
  param($word, $ast, $position)
  $path = ($ast.CommandElements | Select-Object -Skip 1 | Where-Object { $_.ToString() -ne $word }) -join ' '
  $next = switch ($path) {
${words(root)
  .map(([path, next]) => `    '${path}' { ${next.map((one) => `'${one}'`).join(', ')} }`)
  .join('\n')}
  }
  $next | Where-Object { $_ -like "$word*" } | ForEach-Object { [System.Management.Automation.CompletionResult]::new($_) }
}
`,
};

const flags = {
  shell: {
    type: 'string',
    short: 's',
    values: ['bash', 'fish', 'zsh', 'powershell'],
    description: 'Shell to complete in. Default: the shell of $SHELL.',
  },
  print: { type: 'bool', short: 'p', description: 'Print the completion script instead of installing it.' },
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const shell = given.shell || basename(ctx.env['SHELL'] ?? '').replace(/^pwsh$/, 'powershell');
  const script = SCRIPTS[shell]?.(ctx.program.root);
  if (script === undefined)
    throw new AppError('invalid', 'Unknown shell. Set --shell to bash, zsh, fish or powershell.');
  if (given.print) {
    ctx.io.stdout.write(script);
    return;
  }
  const home = homeFolder(ctx.env);
  const target: Record<string, string> = {
    fish: join(home, '.config/fish/completions/coder.fish'),
    zsh: join(home, '.coder-completion.zsh'),
    bash: join(home, '.local/share/bash-completion/completions/coder'),
  };
  const path = target[shell];
  if (path === undefined)
    throw new AppError(
      'invalid',
      'Cannot install completion for PowerShell. Add the output of this command to your profile: coder completion -s powershell -p',
    );
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, script);
  const rc = join(home, '.zshrc');
  const line = `source ${path}`;
  if (shell === 'zsh' && !(existsSync(rc) && readFileSync(rc, 'utf8').includes(line)))
    appendFileSync(rc, `\n${line}\n`);
  print(ctx.io, `Installed completion in ${path}. Open a new shell to use it.`);
});
