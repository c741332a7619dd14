// Sets the theme before the first paint. src/util/theme.ts writes the choice.
{
  let choice = 'auto';
  try {
    choice = localStorage.getItem('theme') ?? 'auto';
  } catch {
    // storage is blocked: the system's theme applies
  }
  const dark = choice === 'dark' || (choice !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
}
