// The theme that was chosen on the page, on every page of this server; without one the system's holds.
{
  const chosen = localStorage.getItem("dragoman-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
