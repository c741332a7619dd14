import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import { AppError } from '@ropewalk/kit/errors';
import { homeFolder } from '@ropewalk/kit/home';
import { ownValue } from '@ropewalk/kit/own-value';
import { command } from '../framework/definition.ts';
import { print } from '../framework/io.ts';

// Each script calls the program with the words up to the cursor and COMPLETION_MODE=1, as upstream's scripts do, and
// offers the lines that it prints (run.ts). Without a line, the shell completes file names.
const SCRIPTS: Record<string, string> = {
  bash: `_coder() {
  local IFS=$'\\n'
  COMPREPLY=($(COMPLETION_MODE=1 coder "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _coder coder
`,
  zsh: `#compdef coder
_coder() {
  local -a found
  found=(\${(f)"$(COMPLETION_MODE=1 coder "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( \${#found} )); then compadd -- $found; else _files; fi
}
compdef _coder coder
`,
  fish: `function __coder_words
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  env COMPLETION_MODE=1 coder $words[2..-1] "$current" 2>/dev/null
end
complete -c coder -a '(__coder_words)'
`,
  powershell: `Register-ArgumentCompleter -Native -CommandName coder -ScriptBlock {
  param($word, $ast, $position)
  $words = @($ast.CommandElements | Select-Object -Skip 1 |
    Where-Object { $_.Extent.StartOffset -lt $position } | ForEach-Object { $_.ToString() })
  if ($word -eq '') { $words += '""' }
  $env:COMPLETION_MODE = '1'
  try { coder @words 2>$null | ForEach-Object { [System.Management.Automation.CompletionResult]::new($_) } }
  finally { Remove-Item Env:COMPLETION_MODE }
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
  const script = ownValue(SCRIPTS, shell);
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
  const path = ownValue(target, shell);
  if (path === undefined)
    throw new AppError(
      'invalid',
      'Cannot install completion for PowerShell. Add the output of this command to your profile: coder completion -s powershell -p',
    );
  ensureDirectorySync(dirname(path));
  writeFileSync(path, script);
  const rc = join(home, '.zshrc');
  const line = `source ${path}`;
  if (shell === 'zsh' && !(existsSync(rc) && readFileSync(rc, 'utf8').includes(line)))
    appendFileSync(rc, `\n${line}\n`);
  print(ctx.io, `Installed completion in ${path}. Open a new shell to use it.`);
});
