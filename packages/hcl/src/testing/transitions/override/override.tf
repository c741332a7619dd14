resource "terraform_data" "always" {
  count = 1
}

resource "terraform_data" "sometimes" {
  count = 2 * data.coder_workspace.me.start_count
}
