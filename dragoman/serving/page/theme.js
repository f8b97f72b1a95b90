// Applies the theme chosen on the translation page to every page of this server. The default is the system's theme.
{
  const chosen = localStorage.getItem("dragoman-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
