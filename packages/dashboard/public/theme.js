// Sets the theme and the density before the first paint. src/util/theme.ts writes the choices.
{
  let choice = 'auto';
  let density = 'comfortable';
  try {
    choice = localStorage.getItem('theme') ?? 'auto';
    if (localStorage.getItem('density') === 'compact') density = 'compact';
  } catch {
    // storage is blocked: the system's theme applies
  }
  const dark = choice === 'dark' || (choice !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  document.documentElement.dataset.density = density;
}
