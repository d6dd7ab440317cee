// A path's elements: the choice of one, and its way.
const ways = JSON.parse(document.getElementById("ways").textContent);

function show(select) {
  const element = ways[select.dataset.path][select.selectedIndex];
  const section = select.closest("section");
  const rows = element.stations.map(([name, value]) => {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    const cell = document.createElement("td");
    head.scope = "row";
    head.textContent = name;
    cell.textContent = value;
    row.append(head, cell);
    return row;
  });
  section.querySelector(".way tbody").replaceChildren(...rows);
  section.querySelector("pre").textContent = JSON.stringify(element.explanation, null, 1);
}

const selects = document.querySelectorAll("select[data-path]");
for (const select of selects) select.addEventListener("change", () => show(select));
// A browser may restore a choice when it comes back to the page.
window.addEventListener("pageshow", () => selects.forEach(show));
